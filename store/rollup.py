"""Ten-second, one-minute and hourly rollups, recomputed for the buckets whose facts changed.

A rollup row is a pure function of the facts of its bucket. Sums of seconds are made in whole
nanoseconds: adding floats in another order would end in other bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from store.engine import Engine
from store.schema import ROLLUP_KEYS

TABLES = {10: "rollup_10s", 60: "rollup_1m", 3600: "rollup_1h"}

_KEYS = ", ".join(ROLLUP_KEYS)
_OTHER_KEYS = ", ".join(ROLLUP_KEYS[1:])
_VALUES = (
    "requests, prompt_tokens, cached_tokens, completion_tokens, unknown_usage, engine_s, "
    "duration_ms_sum, ttft_hist, duration_hist"
)
_COLUMNS = f"{_KEYS}, {_VALUES}, version, deleted"
_NO_HISTOGRAM = "CAST(map(), 'Map(Int16, UInt64)')"
_AT_ONCE = 5000  # buckets of one statement: bounds its text and its memory


class RollupWriter:
    """Keeps the rollup tables true; a `BucketListener` of the ingest pipeline."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def refresh(self, buckets: Sequence[datetime], version: int) -> None:
        """Recompute the given ten-second buckets and what is made of them. Idempotent."""
        ten_seconds = sorted({int(bucket.timestamp()) // 10 * 10 for bucket in buckets})
        finer = 0
        for size in TABLES:
            for chunk in _chunks(sorted({at // size * size for at in ten_seconds})):
                rows = _from_facts(chunk) if size == 10 else _from_rows(size, finer, chunk)
                self._engine.execute(_replacing(size, chunk, version, rows))
            finer = size


def histogram_bucket(column: str) -> str:
    """Name the log bucket of a time in ms: floor(log2(ms) * 8), so 9 % wide."""
    return f"toInt16(floor(log2(greatest(assumeNotNull({column}), 0.001)) * 8))"


def _from_facts(buckets: Sequence[int]) -> str:
    def histogram(column: str) -> str:
        one = f"map({histogram_bucket(column)}, toUInt64(1))"
        return f"sumMapIf({one}, isNotNull({column}))"

    def nanoseconds(column: str, scale: int) -> str:
        return f"sum(toInt64(round(ifNull({column}, 0) * {scale}))) / {scale}"

    return f"""
SELECT toDateTime(intDiv(toUnixTimestamp64Nano(start), 10000000000) * 10, 'UTC') AS bucket,
  {_OTHER_KEYS},
  count() AS requests,
  sum(toUInt64(ifNull(facts.prompt_tokens, 0))) AS prompt_tokens,
  sum(toUInt64(ifNull(facts.cached_tokens, 0))) AS cached_tokens,
  sum(toUInt64(ifNull(facts.completion_tokens, 0))) AS completion_tokens,
  countIf(isNull(facts.prompt_tokens) OR isNull(facts.completion_tokens)) AS unknown_usage,
  {nanoseconds("facts.engine_s", 1_000_000_000)} AS engine_s,
  {nanoseconds("facts.duration_ms", 1_000_000)} AS duration_ms_sum,
  {histogram("ttft_ms")} AS ttft_hist,
  {histogram("duration_ms")} AS duration_hist
FROM facts FINAL
WHERE {_within("start", 10, buckets)} AND toUInt32(bucket) IN ({_list(buckets)})
GROUP BY {_KEYS}"""


def _from_rows(size: int, finer: int, buckets: Sequence[int]) -> str:
    whole = f"intDiv(toUInt32(f.bucket), {size}) * {size}"

    def nanoseconds(column: str, scale: int) -> str:
        return f"sum(toInt64(round(f.{column} * {scale}))) / {scale}"

    return f"""
SELECT toDateTime({whole}, 'UTC') AS whole_bucket, {_OTHER_KEYS},
  sum(f.requests), sum(f.prompt_tokens), sum(f.cached_tokens), sum(f.completion_tokens),
  sum(f.unknown_usage), {nanoseconds("engine_s", 1_000_000_000)},
  {nanoseconds("duration_ms_sum", 1_000_000)}, sumMap(f.ttft_hist), sumMap(f.duration_hist)
FROM {TABLES[finer]} AS f FINAL
WHERE {_within("f.bucket", size, buckets)} AND {whole} IN ({_list(buckets)})
GROUP BY whole_bucket, {_OTHER_KEYS}"""


def _replacing(size: int, buckets: Sequence[int], version: int, rows: str) -> str:
    """Bury every row of these buckets and write the new ones, in one insert."""
    table = TABLES[size]
    nothing = ", ".join(["toUInt64(0)"] * 5 + ["toFloat64(0)"] * 2 + [_NO_HISTOGRAM] * 2)
    return f"""
INSERT INTO {table} ({_COLUMNS})
SELECT {_KEYS}, {nothing}, toUInt64({2 * version}), toUInt8(1)
FROM {table} FINAL
WHERE {_within("bucket", size, buckets)} AND toUInt32(bucket) IN ({_list(buckets)})
UNION ALL
SELECT *, toUInt64({2 * version + 1}), toUInt8(0) FROM ({rows})"""


def _within(column: str, size: int, buckets: Sequence[int]) -> str:
    """Bound the time read, so that the engine skips what lies outside.

    The limits have the precision of `facts.start`: compared with a DateTime, the engine skips the
    part that holds a request of the last nanosecond before it.
    """
    first, last = min(buckets), max(buckets) + size
    return (
        f"{column} >= toDateTime64({first}, 9, 'UTC') AND {column} < toDateTime64({last}, 9, 'UTC')"
    )


def _list(buckets: Sequence[int]) -> str:
    return ", ".join(map(str, buckets))


def _chunks(buckets: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(buckets), _AT_ONCE):
        yield buckets[start : start + _AT_ONCE]
