"""Counts of every window, SLO and group, in one query for all SLOs of one budget window.

Slices have a query for each length: they are counted up to the last one that is over.
"""

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
from slo.slices import by_length, ceil_to_slice, floor_to_slice
from slo.weighed import alike
from slo.windows import Cut, cut, nanoseconds
from store.engine import Engine

_NONE = timedelta(0)
_REQUESTS = {
    "total": ("n", "sumIf", "requests"),
    "bad": ("nb", "sumIf", "bad_requests"),
    "heaviest": ("h", "maxIf", "heaviest"),
    "squares": ("sq", "sumIf", "squares"),
}
"""By field of `Requests`: short name, how it adds up, column. Of every window."""
_REQUESTS_LEFT_OUT = {
    "excluded": ("nx", "sumIf", "excluded_requests"),
    "unweighed": ("u", "sumIf", "unweighed"),
}
"""Of the longest window only."""


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """One group: a count per window; excluded and reasons are of the longest window.

    `periods` holds what was counted since an instant: (judged, excluded). `run` is how many bad
    requests started after the last good one, within the reach that was asked for. Of an SLO that
    weighs requests the counts are weights, and `requests` those behind them, for each window
    (what does not count, of the longest only).
    """

    group: tuple[str, ...]
    windows: Mapping[timedelta, Count]
    excluded: int
    bad_reasons: Mapping[str, int]
    periods: Mapping[datetime, tuple[Count, int]] = field(default_factory=dict)
    run: int = 0
    requests: Mapping[timedelta, Requests] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Windows that end at `until`; `begins` says from when a period is counted."""

    until: datetime
    lengths: Sequence[timedelta]
    reach: timedelta
    begins: Mapping[datetime, datetime]


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

    Of SLOs of slices the slices that are over at `now` are counted, in windows that end with the
    last of them; windows that are not whole slices are left out. A slice belongs to each window
    and period in which it begins.
    """
    if not slos:
        return {}
    ordered, instants = sorted(set(lengths)), sorted(set(since))
    reach = min(reach or ordered[-1], ordered[-1])
    complete, edges = read_complete(engine), edges_of(excluded)
    found: dict[str, list[GroupCounts]] = defaultdict(list)
    for is_here in (True, False):  # requests of our own, events of a Prometheus server
        readable = complete if is_here else all_written(complete)
        for some in alike([slo for slo in slos if (slo.prometheus is None) == is_here]):
            for length, same in by_length((slo, slo.slices) for slo in some).items():
                asked = _asked(ordered, instants, reach, now, length)
                pieces = cut(
                    asked.until, {*asked.lengths, asked.reach}, readable,
                    since=asked.begins.values(), edges=edges, is_closed=length is None,
                )  # fmt: skip
                if not is_here:
                    pieces = replace(pieces, spans=without_facts(pieces.spans, readable))
                _count(engine, same, asked, pieces, excluded, found)
    return found


def _asked(
    lengths: Sequence[timedelta],
    instants: Sequence[datetime],
    reach: timedelta,
    now: datetime,
    length: timedelta | None,
) -> _Asked:
    if length is None:
        return _Asked(now, lengths, reach, {instant: instant for instant in instants})
    whole = [each for each in lengths if each % length == _NONE] or [length]
    begins = {instant: ceil_to_slice(instant, length) for instant in instants}
    within = min(reach // length * length, whole[-1])
    return _Asked(floor_to_slice(now, length), whole, within, begins)


def _count(
    engine: Engine,
    slos: Sequence[Slo],
    asked: _Asked,
    pieces: Cut,
    excluded: Sequence[Excluded],
    found: dict[str, list[GroupCounts]],
) -> None:
    table = engine.arrow(_query(slos, asked, pieces, excluded))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    behind = [
        (length, [(field, columns[f"{name}{number}"]) for field, (name, _, _) in parts.items()])
        for number, length in enumerate(asked.lengths if slos[0].is_weighted else ())
        for parts in [_requests_of(length, asked)]
    ]
    for row in range(table.num_rows):
        windows = {
            length: Count(columns[f"g{number}"][row], columns[f"b{number}"][row])
            for number, length in enumerate(asked.lengths)
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
                    for number, instant in enumerate(asked.begins)
                },
                run=columns["run"][row],
                requests={
                    length: Requests(**{field: found[row] for field, found in parts})
                    for length, parts in behind
                },
            )
        )


def _query(slos: Sequence[Slo], asked: _Asked, pieces: Cut, excluded: Sequence[Excluded]) -> str:
    sums = [
        f"sumIf(good, at >= {pieces.starts[length]}) AS g{number}, "
        f"sumIf(bad, at >= {pieces.starts[length]}) AS b{number}"
        for number, length in enumerate(asked.lengths)
    ]
    sums += [
        f"sumIf({what}, at >= {nanoseconds(instant)}) AS {name}{number}"
        for number, instant in enumerate(asked.begins.values())
        for name, what in (("pg", "good"), ("pb", "bad"), ("px", "excluded"))
    ]
    if slos[0].is_weighted:
        sums += [
            f"{how}({column}, at >= {pieces.starts[length]}) AS {name}{number}"
            for number, length in enumerate(asked.lengths)
            for name, how, column in _requests_of(length, asked).values()
        ]
    first = min(pieces.starts.values())
    return f"""
SELECT slo, group, {", ".join(sums)}, sumIf(excluded, at >= {first}) AS x,
  sumMapIf(reasons, at >= {first}) AS r,
  {run_of_rows(slos, "", "at", f"at >= {pieces.starts[asked.reach]}")} AS run
FROM ({judged_rows(slos, pieces.spans, excluded)}) GROUP BY slo, group ORDER BY slo, group"""


def _requests_of(length: timedelta, asked: _Asked) -> Mapping[str, tuple[str, str, str]]:
    return _REQUESTS | (_REQUESTS_LEFT_OUT if length == max(asked.lengths) else {})
