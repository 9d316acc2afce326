"""Judged requests of any spans of time, as SQL: count rows where there are, else facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from slo.classify import EXCLUDED, FIRST_BAD, GOOD, INELIGIBLE, judgements_sql, reason_sql
from slo.compile import literal
from slo.model import Slo
from slo.recount import of
from slo.schema import TABLES
from slo.windows import FACTS, NS, Span


def judged_rows(slos: Sequence[Slo], spans: Mapping[timedelta, Sequence[Span]]) -> str:
    """Write a SELECT of slo, group, at (nanoseconds), good, bad, excluded, reasons.

    A row is a bucket or one request; `at` is its start.
    """
    sources = [
        _from_facts(slos, found) if step == FACTS else _from_rows(slos, step, found)
        for step, found in spans.items()
        if found
    ]
    return " UNION ALL ".join(f"SELECT * FROM ({source})" for source in sources)


def _from_rows(slos: Sequence[Slo], step: timedelta, spans: Sequence[Span]) -> str:
    inside = " OR ".join(
        f"(bucket >= toDateTime({start // NS}, 'UTC') AND bucket < toDateTime({end // NS}, 'UTC'))"
        for start, end in spans
    )
    return f"""
SELECT toString(slo) AS slo, group, toInt64(toUInt32(bucket)) * {NS} AS at, good, bad, excluded,
  bad_reasons AS reasons
FROM {TABLES[step]} FINAL
WHERE {of(slos)} AND ({inside})"""


def _from_facts(slos: Sequence[Slo], spans: Sequence[Span]) -> str:
    inside = " OR ".join(
        f"(start >= {_instant(start)} AND start < {_instant(end)})" for start, end in spans
    )
    names = f"[{', '.join(literal(slo.name) for slo in slos)}]"
    reason = reason_sql(slos, "j.1", "j.3")
    return f"""
SELECT {names}[j.1] AS slo, j.2 AS group, at, toUInt64(j.3 = {GOOD}) AS good,
  toUInt64(j.3 >= {FIRST_BAD}) AS bad, toUInt64(j.3 = {EXCLUDED}) AS excluded,
  if(j.3 >= {FIRST_BAD}, map({reason}, toUInt64(1)), CAST(map(), 'Map(String, UInt64)')) AS reasons
FROM (
  SELECT toUnixTimestamp64Nano(start) AS at, outcome, outcome_reason,
    arrayJoin({judgements_sql(slos)}) AS j
  FROM facts FINAL WHERE {inside}
)
WHERE j.3 != {INELIGIBLE}"""


def _instant(nanoseconds: int) -> str:
    return f"fromUnixTimestamp64Nano(toInt64({nanoseconds}), 'UTC')"
