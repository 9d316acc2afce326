"""Counts of every window of one SLO, per group, in one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slo.budget import Count
from slo.classify import BAD, EXCLUDED, GOOD, INELIGIBLE, class_sql, group_sql, reason_sql
from slo.compile import literal
from slo.model import Slo
from slo.retention import floors
from slo.schema import TABLES
from slo.windows import FACTS, NS, Cut, Span, cut
from store.engine import Engine


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """One group: a count per window; excluded and reasons are of the longest window."""

    group: tuple[str, ...]
    windows: Mapping[timedelta, Count]
    excluded: int
    bad_reasons: Mapping[str, int]


def count_windows(
    engine: Engine, slo: Slo, lengths: Sequence[timedelta], now: datetime
) -> list[GroupCounts]:
    """Count (now - length, now] for every length and every group seen in the longest, exactly."""
    ordered = sorted(set(lengths))
    pieces = cut(now, ordered, floors(engine))
    table = engine.arrow(_query(slo, ordered, pieces))
    if table.num_rows == 0:
        return []
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return [
        GroupCounts(
            group=tuple(group),
            windows={
                length: Count(columns[f"g{number}"][row], columns[f"b{number}"][row])
                for number, length in enumerate(ordered)
            },
            excluded=columns["excluded"][row],
            bad_reasons=dict(columns["bad_reasons"][row]),
        )
        for row, group in enumerate(columns["group"])
    ]


def _query(slo: Slo, lengths: Sequence[timedelta], pieces: Cut) -> str:
    sums = ", ".join(
        f"sumIf(good, at >= {pieces.starts[length]}) AS g{number}, "
        f"sumIf(bad, at >= {pieces.starts[length]}) AS b{number}"
        for number, length in enumerate(lengths)
    )
    sources = [
        _from_facts(slo, spans) if step == FACTS else _from_rows(slo, step, spans)
        for step, spans in pieces.spans.items()
        if spans
    ]
    rows = " UNION ALL ".join(f"SELECT * FROM ({source})" for source in sources)
    return f"""
SELECT group, {sums}, sum(x) AS excluded, sumMap(reasons) AS bad_reasons
FROM ({rows}) GROUP BY group ORDER BY group"""


def _from_rows(slo: Slo, step: timedelta, spans: Sequence[Span]) -> str:
    inside = " OR ".join(
        f"(bucket >= toDateTime({start // NS}, 'UTC') AND bucket < toDateTime({end // NS}, 'UTC'))"
        for start, end in spans
    )
    return f"""
SELECT group, toInt64(toUInt32(bucket)) * {NS} AS at, good, bad, excluded AS x,
  bad_reasons AS reasons
FROM {TABLES[step]} FINAL
WHERE slo = {literal(slo.name)} AND definition = {literal(slo.definition)} AND ({inside})"""


def _from_facts(slo: Slo, spans: Sequence[Span]) -> str:
    inside = " OR ".join(
        f"(start >= {_instant(start)} AND start < {_instant(end)})" for start, end in spans
    )
    return f"""
SELECT group, at, toUInt64(class = {GOOD}) AS good, toUInt64(class = {BAD}) AS bad,
  toUInt64(class = {EXCLUDED}) AS x,
  if(class = {BAD}, map(reason, toUInt64(1)), CAST(map(), 'Map(String, UInt64)')) AS reasons
FROM (
  SELECT {group_sql(slo)} AS group, toUnixTimestamp64Nano(start) AS at,
    {class_sql(slo)} AS class, {reason_sql(slo)} AS reason
  FROM facts FINAL WHERE {inside}
)
WHERE class != {INELIGIBLE}"""


def _instant(nanoseconds: int) -> str:
    return f"fromUnixTimestamp64Nano(toInt64({nanoseconds}), 'UTC')"
