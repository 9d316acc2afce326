"""Judged requests of any spans of time, as SQL: count rows where there are, else facts.

Exclusions are applied here, so whoever reads counts reads them without what is excluded. Slices are
judged by what is left of them: an exclusion that cuts one leaves the requests beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from slo.classify import EXCLUDED, FIRST_BAD, GOOD, INELIGIBLE, judgements_sql, reason_sql
from slo.compile import literal
from slo.exclusion import Excluded
from slo.model import Slo
from slo.recount import of
from slo.schema import TABLES
from slo.slices import NO_REASON, by_length, is_good_sql, most_common_sql
from slo.weighed import COLUMNS, requests_sql
from slo.windows import FACTS, NS, Span, instant, nanoseconds


def judged_rows(
    slos: Sequence[Slo],
    spans: Mapping[timedelta, Sequence[Span]],
    excluded: Sequence[Excluded] = (),
    facts: str = "facts FINAL",
) -> str:
    """Write a SELECT of slo, group, at (nanoseconds), good, bad, excluded, reasons, tail.

    Where the SLOs weigh requests (all of them do, or none: `slo.weighed.alike`), the columns of
    `slo.weighed` follow. A row is a bucket, a slice or one request; `at` is its start, `tail` what
    was bad after its last good one (`slo.run`). `spans` must have been cut at the edges of
    `excluded` (`edges_of`) and, for SLOs of slices, hold whole slices; those must be of one length.
    `facts` is where requests are read from.
    """
    ((length, _), *others) = by_length((slo, slo.slices) for slo in slos).items()
    assert not others  # noqa: S101  callers part SLOs by the length of their slices
    if length is None:
        return requests_judged(slos, spans, excluded, facts)
    finer = {step: found for step, found in spans.items() if step < length}
    whole = {step: found for step, found in spans.items() if step >= length}
    parts = []
    if any(finer.values()):
        parts.append(_slices(slos, requests_judged(slos, finer, excluded, facts)))
    if any(whole.values()):
        parts.append(requests_judged(slos, whole, excluded, facts))
    return " UNION ALL ".join(f"SELECT * FROM ({part})" for part in parts)


def requests_judged(
    slos: Sequence[Slo],
    spans: Mapping[timedelta, Sequence[Span]],
    excluded: Sequence[Excluded] = (),
    facts: str = "facts FINAL",
) -> str:
    """Write the same of what the tables hold: of requests, where they do not hold slices."""
    sources = [
        _from_facts(slos, found, facts) if step == FACTS else _from_rows(slos, step, found)
        for step, found in spans.items()
        if found
    ]
    rows = " UNION ALL ".join(f"SELECT * FROM ({source})" for source in sources)
    return _without(slos, rows, excluded) if excluded else rows


def edges_of(excluded: Sequence[Excluded]) -> set[int]:
    """List the instants, in nanoseconds, at which exclusions begin and end."""
    return {nanoseconds(at) for each in excluded for span in each.spans for at in span}


def _slices(slos: Sequence[Slo], rows: str) -> str:
    """Judge slices by rows of their requests; one whose requests are all excluded is excluded."""
    slices = [slo.slices for slo in slos if slo.slices is not None]
    which = f"indexOf([{', '.join(literal(slo.name) for slo in slos)}], slo)"
    size = slices[0].length_ns
    return f"""
SELECT slo, group, slice AS at, toUInt64(is_good) AS good, toUInt64(is_bad) AS bad,
  toUInt64(NOT is_good AND NOT is_bad) AS excluded,
  if(is_bad, {most_common_sql("why")}, {NO_REASON}) AS reasons, toUInt64(is_bad) AS tail
FROM (
  SELECT slo, group, slice, why, g + b > 0 AND {is_good_sql(which, slices, "g", "b")} AS is_good,
    b > 0 AND NOT is_good AS is_bad
  FROM (
    SELECT slo, group, intDiv(at, {size}) * {size} AS slice, sum(good) AS g, sum(bad) AS b,
      sumMap(reasons) AS why
    FROM ({rows}) GROUP BY slo, group, slice
  )
)"""


def _without(slos: Sequence[Slo], rows: str, excluded: Sequence[Excluded]) -> str:
    # Renamed within: an alias that is a column's name would be read in place of the column.
    weighed, inner = "", ""
    if slos[0].is_weighted:
        inner = "".join(f", {name} AS weighed_{name}" for name in COLUMNS)
        gone = {name: f"if(left_out, 0, weighed_{name})" for name in COLUMNS}
        gone["excluded_requests"] = "weighed_excluded_requests + if(left_out, weighed_requests, 0)"
        weighed = "".join(f", {value} AS {name}" for name, value in gone.items())
    return f"""
SELECT slo, group, at, if(left_out, 0, g) AS good, if(left_out, 0, b) AS bad,
  x + if(left_out, g + b, 0) AS excluded, if(left_out, mapFilter((k, v) -> 0, r), r) AS reasons,
  if(left_out, 0, t) AS tail{weighed}
FROM (
  SELECT slo, group, at, good AS g, bad AS b, excluded AS x, reasons AS r,
    tail AS t{inner}, ({" OR ".join(map(is_left_out, excluded))}) AS left_out
  FROM ({rows})
)"""


def is_left_out(each: Excluded) -> str:
    """Write the condition that a row with `slo`, `group` and `at` is excluded."""
    members = "".join(f" AND group[{at + 1}] = {literal(value)}" for at, value in each.match)
    starts, ends = (
        ", ".join(str(nanoseconds(span[side])) for span in each.spans) for side in (0, 1)
    )
    return (
        f"(slo = {literal(each.slo)}{members} AND "
        f"arrayExists((f, u) -> at >= f AND at < u, [{starts}], [{ends}]))"
    )


def _from_rows(slos: Sequence[Slo], step: timedelta, spans: Sequence[Span]) -> str:
    inside = " OR ".join(
        f"(bucket >= toDateTime({start // NS}, 'UTC') AND bucket < toDateTime({end // NS}, 'UTC'))"
        for start, end in spans
    )
    return f"""
SELECT toString(slo) AS slo, group, toInt64(toUInt32(bucket)) * {NS} AS at, good, bad, excluded,
  bad_reasons AS reasons, tail{_weighed(slos)}
FROM {TABLES[step]} FINAL
WHERE {of(slos)} AND ({inside})"""


def _from_facts(slos: Sequence[Slo], spans: Sequence[Span], facts: str) -> str:
    inside = " OR ".join(
        f"(start >= {instant(start)} AND start < {instant(end)})" for start, end in spans
    )
    names = f"[{', '.join(literal(slo.name) for slo in slos)}]"
    if slos[0].is_weighted:
        return f"""
SELECT {names}[number] AS slo, group, at, good, bad, excluded, bad_reasons AS reasons,
  tail{_weighed(slos)}
FROM ({requests_sql(slos, facts, inside)})"""
    reason = reason_sql(slos, "j.1", "j.3")
    return f"""
SELECT {names}[j.1] AS slo, j.2 AS group, at, toUInt64(j.3 = {GOOD}) AS good,
  toUInt64(j.3 >= {FIRST_BAD}) AS bad, toUInt64(j.3 = {EXCLUDED}) AS excluded,
  if(j.3 >= {FIRST_BAD}, map(assumeNotNull({reason}), toUInt64(1)),
    CAST(map(), 'Map(String, UInt64)')) AS reasons,
  toUInt64(j.3 >= {FIRST_BAD}) AS tail
FROM (
  SELECT toUnixTimestamp64Nano(start) AS at, outcome, outcome_reason,
    arrayJoin({judgements_sql(slos)}) AS j
  FROM {facts} WHERE {inside}
)
WHERE j.3 != {INELIGIBLE}"""


def _weighed(slos: Sequence[Slo]) -> str:
    return "".join(f", {name}" for name in COLUMNS) if slos[0].is_weighted else ""
