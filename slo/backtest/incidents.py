"""What a backtest holds pages against, without the alerting rule. Pure.

A *stretch* is a longest run of evaluations at which bad / total, over the long window of some tier
that pages, is at least that tier's factor times the allowance. The short window, the guard, silent
sources and holds play no part. A stretch is *missed* if no page of its group was open at any of
its evaluations, and it is no bad luck of a few: at its worst the window held `min_bad` bad
requests, and it lasted as long as the tier's short window.

The *onset* of a burn is where its failures began: the point, within the long window before, from
which bad - factor x allowance x total has grown most (the change point of a cumulative sum,
E. S. Page, Biometrika 1954). Time to detect is from there to the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from slo.backtest import runs
from slo.backtest.burning import Floats, burns, changes, long_burns
from slo.backtest.cells import Cells, Evaluations, Grid, Ints
from slo.budget import allowance
from slo.model import Slo
from slo.slices import Slices, floor_to_slice
from slo.tiers import Tier


@dataclass(frozen=True, slots=True)
class Stretch:
    """The budget burned this fast from evaluation `first` to `end`; `bad` requests at its worst."""

    first: int
    end: int
    tier: Tier  # the one whose window burned the most above its factor
    burn: float
    bad: int


def stretches(slo: Slo, cells: Cells, grid: Grid, span: Evaluations) -> list[Stretch]:
    """Find the stretches of one group, in order of time."""
    traces = [_trace(slo, tier, cells, grid, span) for tier in slo.tiers if tier.severity == "page"]
    traces = [each for each in traces if each.points.size]
    if not traces:
        return []
    every = runs.union(*(each.runs for each in traces))
    return [_worst(traces, start, end) for start, end in every.tolist()]


def is_missed(stretch: Stretch, pages: Sequence[tuple[int, int]], grid: Grid) -> bool:
    """Say whether nobody was paged; `pages` are evaluations, [fired, resolved)."""
    if any(fired < stretch.end and resolved > stretch.first for fired, resolved in pages):
        return False
    return not is_small(stretch, grid)


def is_small(stretch: Stretch, grid: Grid) -> bool:
    """Say whether a stretch is a few unlucky requests, or shorter than a short window."""
    lasted = (stretch.end - stretch.first) * grid.every
    return stretch.bad < stretch.tier.min_bad or lasted < grid.cells(stretch.tier.short)


def onset(
    cells: Cells,
    tier: Tier,
    objective: float,
    grid: Grid,
    evaluation: int,
    slices: Slices | None = None,
) -> datetime:
    """Find when the failures began that burn at an evaluation: of slices, when the first began."""
    last = evaluation * grid.every
    window = np.array([last - grid.cells(tier.long), last])
    start, end = cells.rank(window).tolist()
    if start >= end:
        return grid.at(evaluation)
    limit = tier.factor * allowance(objective)
    bad = cells.bad[start : end + 1] - cells.bad[start]
    total = cells.total[start : end + 1] - cells.total[start]
    grown = bad - limit * total
    before = int(np.argmin(grown[:-1]))
    # The first bad request after the low point: what is good before it is no failure yet.
    failed = np.flatnonzero(np.diff(bad[before:]) > 0)
    first = before + (int(failed[0]) if failed.size else 0)
    cell = int(cells.at[start + first])
    began = grid.begins(cell)
    if slices is None:
        return began
    ended = floor_to_slice(grid.begins(cell + 1), slices.length)  # events lie where slices end
    return min(began, ended - slices.length)


@dataclass(frozen=True, slots=True)
class _Trace:
    """How fast one tier's long window burned, where it did at its factor or more."""

    tier: Tier
    runs: Ints
    points: Ints
    bad: Ints
    burn: Floats


def _trace(slo: Slo, tier: Tier, cells: Cells, grid: Grid, span: Evaluations) -> _Trace:
    found = long_burns(cells, tier, slo.objective, grid, span)
    length = grid.cells(tier.long)
    points = changes(cells, (length,), grid, found)
    ends = points * grid.every
    bad, total = cells.window(ends, length)
    failed = cells.bad_requests_in(ends, length)
    return _Trace(tier, found, points, failed, burns(bad, total, slo.objective))


def _worst(traces: Sequence[_Trace], start: int, end: int) -> Stretch:
    best: tuple[float, Stretch] | None = None
    for trace in traces:
        first, last = np.searchsorted(trace.points, (start, end)).tolist()
        if first == last:
            continue
        most = first + int(np.argmax(trace.burn[first:last]))
        burn, bad = float(trace.burn[most]), int(trace.bad[first:last].max())
        if best is None or burn / trace.tier.factor > best[0]:
            best = (burn / trace.tier.factor, Stretch(start, end, trace.tier, burn, bad))
    assert best is not None  # noqa: S101  a stretch is made of some tier's points
    return best[1]
