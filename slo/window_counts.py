"""Counts of every window, SLO and group, in one query for all SLOs of one budget window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from slo.budget import Count, Requests
from slo.completeness import read_complete
from slo.exclusion import Excluded
from slo.judged_rows import edges_of, judged_rows
from slo.model import Slo
from slo.prometheus.buckets import all_written, without_facts
from slo.recount import run_of_rows
from slo.weighed import alike
from slo.windows import Cut, cut, nanoseconds
from store.engine import Engine

_REQUESTS = {
    "n": ("sumIf", "requests"),
    "nb": ("sumIf", "bad_requests"),
    "h": ("maxIf", "heaviest"),
    "nx": ("sumIf", "excluded_requests"),
    "u": ("sumIf", "unweighed"),
}
"""By the order of `Requests`: short name, how it adds up, column."""


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """One group: a count per window; excluded and reasons are of the longest window.

    `periods` holds what was counted since an instant: (judged, excluded). `run` is how many bad
    requests started after the last good one, within the reach that was asked for. Of an SLO that
    weighs requests the counts are weights, and `requests` those behind them, for each window.
    """

    group: tuple[str, ...]
    windows: Mapping[timedelta, Count]
    excluded: int
    bad_reasons: Mapping[str, int]
    periods: Mapping[datetime, tuple[Count, int]] = field(default_factory=dict)
    run: int = 0
    requests: Mapping[timedelta, Requests] = field(default_factory=dict)


def count_windows(
    engine: Engine,
    slos: Sequence[Slo],
    lengths: Sequence[timedelta],
    now: datetime,
    *,
    since: Sequence[datetime] = (),
    excluded: Sequence[Excluded] = (),
    reach: timedelta | None = None,
) -> dict[str, list[GroupCounts]]:
    """Count (now - length, now] for every length and [instant, now] for every `since`, exactly.

    Returns, by SLO name, every group seen in the longest of them. What is `excluded` counts as
    such. Runs of bad requests are counted in the last `reach`, by default the longest length.
    """
    if not slos:
        return {}
    ordered, instants = sorted(set(lengths)), sorted(set(since))
    reach = min(reach or ordered[-1], ordered[-1])
    complete, edges = read_complete(engine), edges_of(excluded)
    found: dict[str, list[GroupCounts]] = defaultdict(list)
    from_facts = [slo for slo in slos if slo.prometheus is None]
    for some in alike(from_facts):
        pieces = cut(now, {*ordered, reach}, complete, since=instants, edges=edges)
        _count(engine, some, ordered, instants, reach, pieces, excluded, found)
    from_prometheus = [slo for slo in slos if slo.prometheus is not None]
    if from_prometheus:
        written = all_written(complete)
        pieces = cut(now, {*ordered, reach}, written, since=instants, edges=edges)
        pieces = replace(pieces, spans=without_facts(pieces.spans, written))
        _count(engine, from_prometheus, ordered, instants, reach, pieces, excluded, found)
    return found


def _count(
    engine: Engine,
    slos: Sequence[Slo],
    ordered: Sequence[timedelta],
    instants: Sequence[datetime],
    reach: timedelta,
    pieces: Cut,
    excluded: Sequence[Excluded],
    found: dict[str, list[GroupCounts]],
) -> None:
    table = engine.arrow(_query(slos, ordered, instants, reach, pieces, excluded))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
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
                periods={
                    instant: (
                        Count(columns[f"pg{number}"][row], columns[f"pb{number}"][row]),
                        columns[f"px{number}"][row],
                    )
                    for number, instant in enumerate(instants)
                },
                run=columns["run"][row],
                requests={
                    length: Requests(*(columns[f"{name}{number}"][row] for name in _REQUESTS))
                    for number, length in enumerate(ordered)
                }
                if slos[0].is_weighted
                else {},
            )
        )


def _query(
    slos: Sequence[Slo],
    lengths: Sequence[timedelta],
    instants: Sequence[datetime],
    reach: timedelta,
    pieces: Cut,
    excluded: Sequence[Excluded],
) -> str:
    sums = [
        f"sumIf(good, at >= {pieces.starts[length]}) AS g{number}, "
        f"sumIf(bad, at >= {pieces.starts[length]}) AS b{number}"
        for number, length in enumerate(lengths)
    ]
    sums += [
        f"sumIf({what}, at >= {nanoseconds(instant)}) AS {name}{number}"
        for number, instant in enumerate(instants)
        for name, what in (("pg", "good"), ("pb", "bad"), ("px", "excluded"))
    ]
    if slos[0].is_weighted:
        sums += [
            f"{how}({column}, at >= {pieces.starts[length]}) AS {name}{number}"
            for number, length in enumerate(lengths)
            for name, (how, column) in _REQUESTS.items()
        ]
    first = min(pieces.starts.values())
    return f"""
SELECT slo, group, {", ".join(sums)}, sumIf(excluded, at >= {first}) AS x,
  sumMapIf(reasons, at >= {first}) AS r,
  {run_of_rows(slos, "", "at", f"at >= {pieces.starts[reach]}")} AS run
FROM ({judged_rows(slos, pieces.spans, excluded)}) GROUP BY slo, group ORDER BY slo, group"""
