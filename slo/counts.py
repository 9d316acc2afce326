"""Judged requests, counted per SLO, group and bucket.

A row is a pure function of the facts of its bucket, so order, duplicates and lateness cannot
matter: when facts change, every row of their buckets is written anew (a tombstone for each that
exists, then what is true now) in one statement for all SLOs. Ten-second rows come from facts,
minutes from ten-second rows, hours from minutes; from facts where the finer rows have been dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from slo.classify import BAD, EXCLUDED, GOOD, INELIGIBLE, class_sql, group_sql, reason_sql
from slo.compile import literal
from slo.model import Slo
from slo.retention import floors
from slo.schema import TABLES
from store.engine import Engine

_AT_ONCE = 4000  # buckets in one statement: its text stays below the engine's 256 KiB
_FIRST_VERSION = 1  # of rows counted before any batch was seen


class SloCounts:
    """Keeps the count tables true; a `BucketListener` of the ingest pipeline."""

    def __init__(self, engine: Engine, slos: Sequence[Slo]) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._slos = tuple(slos)

    def refresh(self, buckets: Sequence[datetime], version: int) -> None:
        """Recount the given ten-second buckets and what is made of them. Idempotent."""
        with self._lock:
            self._recount(self._slos, [_epoch(bucket) for bucket in buckets], version)

    def ensure(self) -> list[str]:
        """Count every definition that is new over all stored facts; forget those that are gone.

        Call it before the first `refresh`. Returns the names of the SLOs that were counted.
        """
        with self._lock:
            return self._ensure()

    def replace(self, slos: Sequence[Slo]) -> list[str]:
        """Take other SLOs, counting the new definitions."""
        with self._lock:
            self._slos = tuple(slos)
            return self._ensure()

    def rebuild(self, slo: Slo) -> None:
        """Throw away the counts of one SLO and count it over all stored facts."""
        with self._lock:
            self._forget([(slo.name, slo.definition)])
            self._count_all(slo)

    def _count_all(self, slo: Slo) -> None:
        buckets = self._engine.rows(
            "SELECT DISTINCT toInt64(intDiv(toUnixTimestamp64Nano(start), 10000000000) * 10) AS at "
            "FROM facts FINAL ORDER BY at"
        )
        self._recount((slo,), [row["at"] for row in buckets], _FIRST_VERSION)
        self._engine.execute(
            f"INSERT INTO slo_built VALUES ({literal(slo.name)}, {literal(slo.definition)})"
        )

    def _ensure(self) -> list[str]:
        wanted = {(slo.name, slo.definition): slo for slo in self._slos}
        rows = self._engine.rows("SELECT DISTINCT slo, definition FROM slo_built")
        built = {(row["slo"], row["definition"]) for row in rows}
        self._forget(built - wanted.keys())
        new = [slo for key, slo in wanted.items() if key not in built]
        for slo in new:
            self._count_all(slo)
        return [slo.name for slo in new]

    def _forget(self, gone: Iterable[tuple[str, str]]) -> None:
        # A definition that comes back is counted anew: while it was gone nothing refreshed it.
        for name, definition in sorted(gone):
            match = f"slo = {literal(name)} AND definition = {literal(definition)}"
            for table in ("slo_built", *TABLES.values()):
                self._engine.execute(
                    f"ALTER TABLE {table} DELETE WHERE {match} SETTINGS mutations_sync = 2"
                )

    def _recount(self, slos: Sequence[Slo], buckets: Sequence[int], version: int) -> None:
        if not slos or not buckets:
            return
        complete_from = floors(self._engine)
        finer: timedelta | None = None
        for step in TABLES:
            size = round(step.total_seconds())
            dirty = sorted({bucket // size * size for bucket in buckets})
            kept = [at for at in dirty if at >= complete_from[step]]
            limit = complete_from[finer] if finer else None
            from_facts = [at for at in kept if limit is None or at < limit]
            from_rows = [at for at in kept if limit is not None and at >= limit]
            for chunk in _chunks(from_facts):
                self._engine.execute(_recount_from_facts(step, slos, chunk, version))
            for chunk in _chunks(from_rows):
                assert finer is not None  # noqa: S101  a limit is the floor of the finer table
                self._engine.execute(_recount_from_rows(step, finer, slos, chunk, version))
            finer = step


def _recount_from_facts(
    step: timedelta, slos: Sequence[Slo], buckets: Sequence[int], version: int
) -> str:
    judged = ", ".join(
        f"({literal(slo.name)}, {literal(slo.definition)}, {group_sql(slo)}, "
        f"toUInt8({class_sql(slo)}), {reason_sql(slo)})"
        for slo in slos
    )
    size = round(step.total_seconds())
    counted = f"""
SELECT slo, definition, bucket, group,
  sumIf(n, class = {GOOD}) AS good, sumIf(n, class = {BAD}) AS bad,
  sumIf(n, class = {EXCLUDED}) AS excluded,
  sumMapIf(map(reason, n), class = {BAD}) AS bad_reasons,
  sumMapIf(map(reason, n), class = {EXCLUDED}) AS excluded_reasons
FROM (
  SELECT j.1 AS slo, j.2 AS definition, bucket, j.3 AS group, j.4 AS class, j.5 AS reason,
    count() AS n
  FROM (
    SELECT toDateTime(intDiv(toUnixTimestamp64Nano(start), {size}000000000) * {size}, 'UTC')
      AS bucket, arrayJoin([{judged}]) AS j
    FROM facts FINAL
    WHERE {_within("start", size, buckets)}
  )
  WHERE j.4 != {INELIGIBLE} AND toUInt32(bucket) IN ({_list(buckets)})
  GROUP BY slo, definition, bucket, group, class, reason
)
GROUP BY slo, definition, bucket, group"""
    return _replacing(step, slos, buckets, version, counted)


def _recount_from_rows(
    step: timedelta, finer: timedelta, slos: Sequence[Slo], buckets: Sequence[int], version: int
) -> str:
    size = round(step.total_seconds())
    whole = f"intDiv(toUInt32(f.bucket), {size}) * {size}"
    counted = f"""
SELECT slo, definition, toDateTime({whole}, 'UTC') AS whole_bucket, group,
  sum(f.good) AS good, sum(f.bad) AS bad, sum(f.excluded) AS excluded,
  sumMap(f.bad_reasons) AS bad_reasons, sumMap(f.excluded_reasons) AS excluded_reasons
FROM {TABLES[finer]} AS f FINAL
WHERE {_of(slos)} AND {_within("f.bucket", size, buckets)} AND {whole} IN ({_list(buckets)})
GROUP BY slo, definition, whole_bucket, group"""
    return _replacing(step, slos, buckets, version, counted)


def _replacing(
    step: timedelta, slos: Sequence[Slo], buckets: Sequence[int], version: int, counted: str
) -> str:
    table = TABLES[step]
    return f"""
INSERT INTO {table} (slo, definition, bucket, group, good, bad, excluded, bad_reasons,
  excluded_reasons, version, deleted)
SELECT slo, definition, bucket, group, toUInt64(0), toUInt64(0), toUInt64(0),
  CAST(map(), 'Map(String, UInt64)'), CAST(map(), 'Map(String, UInt64)'),
  toUInt64({2 * version}), toUInt8(1)
FROM {table} FINAL
WHERE {_of(slos)} AND toUInt32(bucket) IN ({_list(buckets)})
  AND {_within("bucket", round(step.total_seconds()), buckets)}
UNION ALL
SELECT *, toUInt64({2 * version + 1}), toUInt8(0) FROM ({counted})"""


def _of(slos: Sequence[Slo]) -> str:
    names = ", ".join(literal(slo.name) for slo in slos)
    definitions = ", ".join(literal(slo.definition) for slo in slos)
    return f"slo IN ({names}) AND definition IN ({definitions})"


def _within(column: str, size: int, buckets: Sequence[int]) -> str:
    """Bound the time read, so that the engine skips what lies outside."""
    first, last = _instant(min(buckets)), _instant(max(buckets) + size)
    return f"{column} >= {first} AND {column} < {last}"


def _instant(epoch: int) -> str:
    return f"toDateTime({epoch}, 'UTC')"


def _list(buckets: Sequence[int]) -> str:
    return ", ".join(map(str, buckets))


def _chunks(buckets: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(buckets), _AT_ONCE):
        yield buckets[start : start + _AT_ONCE]


def _epoch(moment: datetime) -> int:
    return int(moment.astimezone(UTC).timestamp())
