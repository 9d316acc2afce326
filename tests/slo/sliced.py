"""A second opinion on slices: judged in plain Python from the requests themselves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from slo.exclusion import Excluded
from slo.interpret import holds
from slo.model import Slo
from slo.slices import Slices
from tests.slo.made_facts import nanoseconds
from tests.slo.recount import Tally, judge, newest

Group = tuple[str, ...]
Judged = dict[int, dict[Group, str | bool | None]]
"""By start and group: why a slice is bad, True for a good one, None for an excluded one."""


@dataclass
class Sliced:
    """Slices of one window: `run` is how many were bad since the last good one."""

    good: int = 0
    bad: int = 0
    excluded: int = 0
    run: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def of_slices(slo: Slo, length: timedelta, percent: str = "75", **fields: Any) -> Slo:
    """Let an SLO count slices."""
    return replace(slo, slices=Slices(length, Fraction(percent) / 100), **fields)


def judge_slices(
    slo: Slo, facts: Iterable[Mapping[str, Any]], excluded: Sequence[Excluded] = ()
) -> Judged:
    """Judge every slice that has eligible requests."""
    assert slo.slices is not None
    size = slo.slices.length_ns
    tallies: dict[tuple[int, Group], Tally] = defaultdict(Tally)
    for each in newest(facts):
        if slo.eligible is None or holds(slo.eligible, each):
            group = tuple(each.get(column, "") for column in slo.group_by)
            tally = tallies[each["start"] // size * size, group]
            if not _is_excluded(slo, group, each, excluded):
                judge(slo, each, tally)
    found: Judged = defaultdict(dict)
    for (at, group), tally in tallies.items():
        total = tally.good + tally.bad
        if total == 0:
            found[at][group] = None
        elif Fraction(tally.good, total) >= slo.slices.share:
            found[at][group] = True
        else:
            ranked = sorted(tally.bad_reasons.items(), key=lambda item: (-item[1], item[0]))
            found[at][group] = ranked[0][0]
    return dict(sorted(found.items()))


def count_slices(
    slo: Slo, judged: Judged, now: datetime, window: timedelta | datetime
) -> dict[Group, Sliced]:
    """Count the slices that are over at `now` and begin in a window, or since an instant."""
    assert slo.slices is not None
    size = slo.slices.length_ns
    end = nanoseconds(now) // size * size
    start = (
        nanoseconds(window)
        if isinstance(window, datetime)
        else end - window // timedelta(microseconds=1) * 1000
    )
    found: dict[Group, Sliced] = defaultdict(Sliced)
    for at, groups in judged.items():
        if start <= at and at + size <= end:
            for group, judgement in groups.items():
                _add(found[group], judgement)
    return dict(found)


def _add(found: Sliced, judgement: str | bool | None) -> None:
    if judgement is None:
        found.excluded += 1
    elif judgement is True:
        found.good, found.run = found.good + 1, 0
    else:
        found.bad, found.run = found.bad + 1, found.run + 1
        found.reasons[str(judgement)] += 1


def _is_excluded(
    slo: Slo, group: Group, each: Mapping[str, Any], excluded: Sequence[Excluded]
) -> bool:
    return any(
        one.slo == slo.name
        and all(group[place] == value for place, value in one.match)
        and any(nanoseconds(a) <= each["start"] < nanoseconds(b) for a, b in one.spans)
        for one in excluded
    )
