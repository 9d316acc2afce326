"""The statements that write count rows anew. Pure.

SLOs that count requests and SLOs that weigh them (`slo.weighed`) have statements of their own.
Each is one INSERT: a tombstone for every row that exists in the buckets, then the rows that are
true now, at the next higher version. Rows of one table are made from facts, or from the rows of a
finer table. Where a table's buckets hold slices of an SLO and the finer rows still requests,
these are judged slice by slice on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from slo.classify import EXCLUDED, FIRST_BAD, GOOD, INELIGIBLE, judgements_sql, reason_sql
from slo.compile import literal
from slo.model import Slo
from slo.run import run_sql
from slo.schema import TABLES
from slo.slices import is_good_sql, length_sql, most_common_sql
from slo.weighed import COLUMNS, HEAVIEST, SUMMED, alike, requests_sql

_FINEST = min(TABLES)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Seconds [start, end), whole buckets; `only` some of the buckets within, or all (None)."""

    start: int
    end: int
    only: tuple[int, ...] | None = None


def statements(
    step: timedelta,
    finer: timedelta | None,
    slos: Sequence[Slo],
    buckets: Buckets,
    version: int,
) -> Iterator[str]:
    """Write the rows of some buckets anew, from those of a finer table or (None) from facts."""
    for some in alike([slo for slo in slos if not _becomes_slices(slo, step, finer)]):
        if finer is not None:
            yield _from_rows(step, finer, some, buckets, version)
        elif some[0].is_weighted:
            yield _weighed_facts(step, some, buckets, version)
        else:
            counted = _of_facts(step, step, some, buckets)
            yield _replacing(step, some, buckets, version, counted)
    if sliced := [slo for slo in slos if _becomes_slices(slo, step, finer)]:
        rows = (
            _of_facts(_FINEST, step, sliced, buckets)
            if finer is None
            else f"SELECT * FROM {_finer_rows(step, finer, sliced, buckets)}"
        )
        yield _replacing(step, sliced, buckets, version, _judged_slices(step, sliced, rows))


def of(slos: Sequence[Slo]) -> str:
    """Write the condition that a count row belongs to one of these SLOs."""
    names = ", ".join(literal(slo.name) for slo in slos)
    definitions = ", ".join(literal(slo.definition) for slo in slos)
    return f"slo IN ({names}) AND definition IN ({definitions})"


def run_of_rows(slos: Sequence[Slo], row: str, at: str, condition: str = "1") -> str:
    """Write `slo.run` over rows of count tables; `row` is their prefix, such as `f.`.

    Of weighted requests a run holds those of which every answer is bad: all but those of a row
    that come before its tail.
    """
    if slos[0].is_weighted:
        good, bad = f"({row}requests - {row}tail)", f"{row}requests"
    else:
        good, bad = f"{row}good", f"{row}bad"
    return run_sql(at, good, bad, f"{row}tail", condition)


def _becomes_slices(slo: Slo, step: timedelta, source: timedelta | None) -> bool:
    """Say whether a table holds slices of an SLO, and what it is made from still requests."""
    if slo.slices is None or step < slo.slices.length:
        return False
    return source is None or source < slo.slices.length


def _judged_slices(step: timedelta, slos: Sequence[Slo], rows: str) -> str:
    """Judge slices by rows of requests, and count them by bucket of `step`."""
    slices = [slo.slices for slo in slos if slo.slices is not None]
    which = f"indexOf([{', '.join(literal(slo.definition) for slo in slos)}], definition)"
    size = round(step.total_seconds())
    return f"""
SELECT slo, definition, toDateTime({_whole("slice", size)}, 'UTC') AS whole_bucket, group,
  countIf(is_good) AS good, countIf(is_bad) AS bad, countIf(NOT is_good AND NOT is_bad) AS excluded,
  sumMapIf({most_common_sql("why_bad")}, is_bad) AS bad_reasons,
  sumMapIf({most_common_sql("why_excluded")}, NOT is_good AND NOT is_bad) AS excluded_reasons,
  {run_sql("slice", "is_good", "is_bad", "toUInt64(is_bad)")} AS tail
FROM (
  SELECT slo, definition, group, slice, why_bad, why_excluded,
    g + b > 0 AND {is_good_sql("which", slices, "g", "b")} AS is_good,
    b > 0 AND NOT is_good AS is_bad
  FROM (
    SELECT slo, definition, group, {which} AS which,
      intDiv(toUInt32(bucket), {length_sql("which", slices)}) * {length_sql("which", slices)}
        AS slice,
      sum(good) AS g, sum(bad) AS b, sumMap(bad_reasons) AS why_bad,
      sumMap(excluded_reasons) AS why_excluded
    FROM ({rows})
    GROUP BY slo, definition, group, slice
  )
)
GROUP BY slo, definition, whole_bucket, group"""


def _of_facts(size: timedelta, step: timedelta, slos: Sequence[Slo], buckets: Buckets) -> str:
    """Count requests by buckets of a size; `buckets` are of `step`."""
    seconds = round(size.total_seconds())
    bucket = "toUInt32(bucket)" if size == step else _whole("bucket", round(step.total_seconds()))
    return f"""
SELECT {_one_of([slo.name for slo in slos])} AS slo,
  {_one_of([slo.definition for slo in slos])} AS definition, bucket, group,
  sumIf(n, judgement = {GOOD}) AS good, sumIf(n, judgement >= {FIRST_BAD}) AS bad,
  sumIf(n, judgement = {EXCLUDED}) AS excluded,
  sumMapIf(map(reason, n), judgement >= {FIRST_BAD}) AS bad_reasons,
  sumMapIf(map(reason, n), judgement = {EXCLUDED}) AS excluded_reasons,
  toUInt64(arrayCount(x -> x > (maxIf(newest, judgement = {GOOD}) AS last_good),
    groupArrayArray(bad_at))) AS tail
FROM (
  SELECT bucket, j.1 AS number, j.2 AS group, j.3 AS judgement,
    {reason_sql(slos, "j.1", "j.3")} AS reason, count() AS n, max(at) AS newest,
    groupArrayIf(at, judgement >= {FIRST_BAD}) AS bad_at
  FROM (
    SELECT toDateTime(intDiv(toUnixTimestamp64Nano(start), {seconds}000000000) * {seconds}, 'UTC')
      AS bucket, toUnixTimestamp64Nano(start) AS at, outcome, outcome_reason,
      arrayJoin({judgements_sql(slos)}) AS j
    FROM facts FINAL
    WHERE {_started_within(buckets)}
  )
  WHERE j.3 != {INELIGIBLE}{_only(bucket, buckets)}
  GROUP BY bucket, number, group, judgement, reason
)
GROUP BY bucket, number, group"""


def _weighed_facts(step: timedelta, slos: Sequence[Slo], buckets: Buckets, version: int) -> str:
    size = round(step.total_seconds())
    bucket = f"toDateTime(intDiv(at, {size}000000000) * {size}, 'UTC')"
    requests = requests_sql(slos, "facts FINAL", _started_within(buckets))
    counted = f"""
SELECT {_one_of([slo.name for slo in slos])} AS slo,
  {_one_of([slo.definition for slo in slos])} AS definition, bucket, group,
  sum(r.good) AS good, sum(r.bad) AS bad, sum(r.excluded) AS excluded,
  sumMap(r.bad_reasons) AS bad_reasons, sumMap(r.excluded_reasons) AS excluded_reasons,
  toUInt64(arrayCount(x -> x > (maxIf(at, r.requests > r.tail) AS last_good),
    groupArrayIf(at, r.tail > 0))) AS tail{_requests("r.")}
FROM (
  SELECT *, {bucket} AS bucket FROM ({requests}) WHERE 1{_only(f"toUInt32({bucket})", buckets)}
) AS r
GROUP BY bucket, number, group"""
    return _replacing(step, slos, buckets, version, counted)


def _from_rows(
    step: timedelta, finer: timedelta, slos: Sequence[Slo], buckets: Buckets, version: int
) -> str:
    whole = _whole("f.bucket", round(step.total_seconds()))
    counted = f"""
SELECT slo, definition, toDateTime({whole}, 'UTC') AS whole_bucket, group,
  sum(f.good) AS good, sum(f.bad) AS bad, sum(f.excluded) AS excluded,
  sumMap(f.bad_reasons) AS bad_reasons, sumMap(f.excluded_reasons) AS excluded_reasons,
  {run_of_rows(slos, "f.", "f.bucket")} AS tail{_requests("f.") if slos[0].is_weighted else ""}
FROM {_finer_rows(step, finer, slos, buckets)}
GROUP BY slo, definition, whole_bucket, group"""
    return _replacing(step, slos, buckets, version, counted)


def _finer_rows(step: timedelta, finer: timedelta, slos: Sequence[Slo], buckets: Buckets) -> str:
    whole = _whole("f.bucket", round(step.total_seconds()))
    return (
        f"{TABLES[finer]} AS f FINAL\n"
        f"WHERE {of(slos)} AND {_within('f.bucket', buckets)}{_only(whole, buckets)}"
    )


def _requests(row: str) -> str:
    """Add up the requests behind weights."""
    sums = "".join(f", sum({row}{name}) AS {name}" for name in SUMMED)
    return f"{sums}, max({row}{HEAVIEST}) AS {HEAVIEST}"


def _replacing(
    step: timedelta, slos: Sequence[Slo], buckets: Buckets, version: int, counted: str
) -> str:
    table = TABLES[step]
    more = COLUMNS if slos[0].is_weighted else ()
    nothing = "".join(f", {'toFloat64' if name == 'squares' else 'toUInt64'}(0)" for name in more)
    return f"""
INSERT INTO {table} (slo, definition, bucket, group, good, bad, excluded, bad_reasons,
  excluded_reasons, tail{"".join(f", {name}" for name in more)}, version, deleted)
SELECT slo, definition, bucket, group, toUInt64(0), toUInt64(0), toUInt64(0),
  CAST(map(), 'Map(String, UInt64)'), CAST(map(), 'Map(String, UInt64)'), toUInt64(0){nothing},
  toUInt64({2 * version}), toUInt8(1)
FROM {table} FINAL
WHERE {of(slos)} AND {_within("bucket", buckets)}{_only("toUInt32(bucket)", buckets)}
UNION ALL
SELECT *, toUInt64({2 * version + 1}), toUInt8(0) FROM ({counted})"""


def _within(column: str, buckets: Buckets) -> str:
    """Bound the time read, so that the engine skips what lies outside."""
    start, end = (f"toDateTime({at}, 'UTC')" for at in (buckets.start, buckets.end))
    return f"{column} >= {start} AND {column} < {end}"


def _started_within(buckets: Buckets) -> str:
    # In nanoseconds: compared with a DateTime, the engine prunes the part that holds the last
    # nanosecond before it.
    start, end = (
        f"fromUnixTimestamp64Nano(toInt64({at}000000000), 'UTC')"
        for at in (buckets.start, buckets.end)
    )
    return f"start >= {start} AND start < {end}"


def _whole(at: str, size: int) -> str:
    return f"intDiv(toUInt32({at}), {size}) * {size}"


def _only(value: str, buckets: Buckets) -> str:
    if buckets.only is None:
        return ""
    return f" AND {value} IN ({', '.join(map(str, buckets.only))})"


def _one_of(names: Sequence[str]) -> str:
    return f"[{', '.join(map(literal, names))}][number]"
