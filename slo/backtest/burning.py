"""When tiers burn over a whole history: `slo.burn.judge_many` at many instants. Pure.

What is judged changes only where a request enters or leaves a window, so a group is looked at
there, and only where its long window burns or a run of failures goes on, without which no tier
burns; and wherever too little was heard to tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from slo.backtest import runs
from slo.backtest.cells import Cells, Evaluations, Grid, Ints
from slo.backtest.heard import Silence
from slo.budget import allowance
from slo.burn import judge_many
from slo.evaluator import windows_of
from slo.guard import RUN_REACH, Tally
from slo.model import Slo
from slo.tiers import Tier

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

_NEARLY = 1 - 1e-9  # what is left to `judge_many` must not turn on the last digit of a double


@dataclass(frozen=True, slots=True)
class Burning:
    """Runs of evaluations in which a tier burns, and in which nobody can tell."""

    runs: Ints
    unknown: Ints


class Watch:
    """Holds the tiers of one SLO against one group, at every evaluation of a span."""

    def __init__(
        self, slo: Slo, cells: Cells, grid: Grid, span: Evaluations, silence: Silence
    ) -> None:
        self._slo = slo
        self._cells = cells
        self._grid = grid
        self._span = span
        self._silence = silence
        self._windows = windows_of(slo)
        self._reach = grid.cells(min(RUN_REACH, slo.window))

    def burning(self, tier: Tier) -> Burning:
        """Find when a tier burns, as the live evaluator says it."""
        cells, grid, span = self._cells, self._grid, self._span
        partial = self._silence.partial
        if cells.bad_requests[-1] < tier.min_bad and not partial.size:
            return Burning(runs.NOTHING, runs.NOTHING)
        suspect = runs.clipped(
            held(cells.bad_at, grid.cells(tier.long), grid), span.first, span.end
        )
        within = runs.union(suspect, partial)
        points = changes(cells, [grid.cells(each) for each in self._windows], grid, within)
        if partial.size:
            points = _distinct(np.concatenate((points, runs.points_of(partial))))
        if not points.size:
            return Burning(runs.NOTHING, runs.NOTHING)
        is_burning, is_known = self._judge(tier, points)
        return Burning(true_runs(is_burning, points, within), true_runs(~is_known, points, within))

    def _judge(self, tier: Tier, points: Ints) -> tuple[Flags, Flags]:
        ends = points * self._grid.every
        may = self._may_burn(tier, ends)
        is_partial = runs.holds(self._silence.partial, points)
        is_burning, is_known = np.zeros(points.size, bool), np.ones(points.size, bool)
        for some, heard in (
            (np.flatnonzero(may & ~is_partial), {}),
            (np.flatnonzero(is_partial), self._silence.heard(points[is_partial])),
        ):
            if some.size:
                judged = judge_many(
                    tier, self._slo.objective, self._tallies(ends[some]), self._run(ends[some]),
                    heard,
                )  # fmt: skip
                is_burning[some], is_known[some] = judged.burning, judged.known
        return is_burning, is_known

    def _may_burn(self, tier: Tier, ends: Ints) -> Flags:
        """Say where a tier could burn: a condition that is cheap, and that burning implies."""
        cells, long = self._cells, self._grid.cells(tier.long)
        bad, total = cells.window(ends, long)
        is_weighted = cells.behind is not None
        failed = cells.bad_requests_in(ends, long) if is_weighted else bad
        may = (failed >= tier.min_bad) & (
            burns(bad, total, self._slo.objective) >= tier.factor * _NEARLY
        )
        return may | (((total > 0) | is_weighted) & (cells.run_at(ends) >= tier.min_bad))

    def _tallies(self, ends: Ints) -> dict[timedelta, Tally]:
        lengths = [self._grid.cells(each) for each in self._windows]
        return dict(zip(self._windows, self._cells.tallies(ends, lengths), strict=True))

    def _run(self, ends: Ints) -> Ints:
        """Count bad requests since the last good one, within the reach of a run."""
        bad = self._cells.bad_requests_in(ends, self._reach)
        return np.minimum(self._cells.run_at(ends), bad)


def burns(bad: Ints, total: Ints, objective: float) -> Floats:
    """Burn rates; NaN, which reaches no factor, where there is no traffic."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(bad / total / allowance(objective), np.float64)


def long_burns(cells: Cells, tier: Tier, objective: float, grid: Grid, span: Evaluations) -> Ints:
    """Find the runs in which the long window alone reaches the factor, whatever else holds."""
    long = grid.cells(tier.long)
    within = runs.clipped(held(cells.bad_at, long, grid), span.first, span.end)
    points = changes(cells, (long,), grid, within)
    bad, total = cells.window(points * grid.every, long)
    return true_runs(burns(bad, total, objective) >= tier.factor, points, within)


def held(at: Ints, length: int, grid: Grid) -> Ints:
    """Find the runs in which a window of `length` cells holds one of these cells."""
    return runs.joined(grid.evaluations(at), grid.evaluations(at + length))


def changes(cells: Cells, lengths: Sequence[int], grid: Grid, within: Ints) -> Ints:
    """List the evaluations, of those within some runs, at which a window's count may change."""
    if runs.length(within) <= (1 + len(lengths)) * cells.at.size:
        return runs.points_of(within)
    moved = (cells.at, *(cells.at + length for length in lengths))
    every = [runs.inside(within, grid.evaluations(each)) for each in moved]
    return _distinct(np.concatenate((within[:, 0], *every)))


def true_runs(flags: Flags, points: Ints, within: Ints) -> Ints:
    """Join what was judged at some points; it holds until the next one, or until its run ends."""
    if not points.size:
        return runs.NOTHING
    run = np.searchsorted(within[:, 0], points, side="right") - 1
    until = np.minimum(np.append(points[1:], within[-1, 1]), within[run, 1])
    return runs.joined(points[flags], until[flags])


def _distinct(points: Ints) -> Ints:
    points = np.sort(points)
    return np.asarray(points[np.append(True, np.diff(points) > 0)], np.int64)
