"""Counts of every window, SLO and group, in one query for all SLOs of one budget window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slo.budget import Count
from slo.classify import BAD, EXCLUDED, GOOD, INELIGIBLE, judged_sql
from slo.compile import literal
from slo.model import Slo
from slo.recount import of
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
    engine: Engine, slos: Sequence[Slo], lengths: Sequence[timedelta], now: datetime
) -> dict[str, list[GroupCounts]]:
    """Count (now - length, now] for every length, exactly.

    Returns, by SLO name, every group seen in the longest window.
    """
    if not slos:
        return {}
    ordered = sorted(set(lengths))
    pieces = cut(now, ordered, floors(engine))
    table = engine.arrow(_query(slos, ordered, pieces))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    found: dict[str, list[GroupCounts]] = defaultdict(list)
    for row in range(table.num_rows):
        windows = {
            length: Count(columns[f"g{number}"][row], columns[f"b{number}"][row])
            for number, length in enumerate(ordered)
        }
        found[columns["slo"][row]].append(
            GroupCounts(
                group=tuple(columns["group"][row]),
                windows=windows,
                excluded=columns["x"][row],
                bad_reasons=dict(columns["r"][row]),
            )
        )
    return found


def _query(slos: Sequence[Slo], lengths: Sequence[timedelta], pieces: Cut) -> str:
    sums = ", ".join(
        f"sumIf(good, at >= {pieces.starts[length]}) AS g{number}, "
        f"sumIf(bad, at >= {pieces.starts[length]}) AS b{number}"
        for number, length in enumerate(lengths)
    )
    sources = [
        _from_facts(slos, spans) if step == FACTS else _from_rows(slos, step, spans)
        for step, spans in pieces.spans.items()
        if spans
    ]
    rows = " UNION ALL ".join(f"SELECT * FROM ({source})" for source in sources)
    return f"""
SELECT slo, group, {sums}, sum(excluded) AS x, sumMap(reasons) AS r
FROM ({rows}) GROUP BY slo, group ORDER BY slo, group"""


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
    return f"""
SELECT {names}[j.1] AS slo, j.2 AS group, at, toUInt64(j.3 = {GOOD}) AS good,
  toUInt64(j.3 = {BAD}) AS bad, toUInt64(j.3 = {EXCLUDED}) AS excluded,
  if(j.3 = {BAD}, map(j.4, toUInt64(1)), CAST(map(), 'Map(String, UInt64)')) AS reasons
FROM (
  SELECT toUnixTimestamp64Nano(start) AS at, arrayJoin({judged_sql(slos)}) AS j
  FROM facts FINAL WHERE {inside}
)
WHERE j.3 != {INELIGIBLE}"""


def _instant(nanoseconds: int) -> str:
    return f"fromUnixTimestamp64Nano(toInt64({nanoseconds}), 'UTC')"
