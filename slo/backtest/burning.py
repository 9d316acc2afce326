"""When tiers burn over a whole history: `slo.burn.judge_many` at many instants. Pure.

What is judged changes only where a request enters or leaves a window, so a group is looked at
there, and only where its long window burns or a run of failures goes on, without which no tier
burns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from slo.backtest import runs
from slo.backtest.cells import Cells, Grid, Ints
from slo.budget import allowance
from slo.burn import judge_many
from slo.guard import Tally
from slo.tiers import Tier

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

_NEARLY = 1 - 1e-9  # what is left to `judge_many` must not turn on the last digit of a double


def burns(bad: Ints, total: Ints, objective: float) -> Floats:
    """Burn rates; NaN, which reaches no factor, where there is no traffic."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(bad / total / allowance(objective), np.float64)


def tier_burns(
    cells: Cells,
    tier: Tier,
    objective: float,
    windows: Sequence[timedelta],
    grid: Grid,
    first: int,
    end: int,
) -> Ints:
    """Find the runs within the evaluations [first, end) in which a tier burns.

    `windows` are those of its SLO (`slo.evaluator.windows_of`).
    """
    long = grid.cells(tier.long)
    if cells.bad[-1] < tier.min_bad:
        return runs.NOTHING

    def burning(points: Ints) -> Flags:
        ends = points * grid.every
        bad, total = cells.window(ends, long)
        may = (bad >= tier.min_bad) & (burns(bad, total, objective) >= tier.factor * _NEARLY)
        may |= (total > 0) & (cells.run_at(ends) >= tier.min_bad)
        some = np.flatnonzero(may)
        if some.size:
            may[some] = _judged(cells, tier, objective, windows, grid, ends[some])
        return may

    within = runs.clipped(held(cells.bad_at, long, grid), first, end)
    lengths = [grid.cells(each) for each in windows]
    return true_runs(burning, changes(cells, lengths, grid, within), within)


def long_burns(
    cells: Cells, tier: Tier, objective: float, grid: Grid, first: int, end: int
) -> Ints:
    """Find the runs in which the long window alone reaches the factor, whatever else holds."""
    long = grid.cells(tier.long)
    if not cells.bad[-1]:
        return runs.NOTHING

    def burning(points: Ints) -> Flags:
        bad, total = cells.window(points * grid.every, long)
        return np.asarray(burns(bad, total, objective) >= tier.factor)

    within = runs.clipped(held(cells.bad_at, long, grid), first, end)
    return true_runs(burning, changes(cells, (long,), grid, within), within)


def _judged(
    cells: Cells,
    tier: Tier,
    objective: float,
    windows: Sequence[timedelta],
    grid: Grid,
    ends: Ints,
) -> Flags:
    lengths = sorted({*windows, tier.long, tier.short})
    counted = cells.windows(ends, [grid.cells(each) for each in lengths])
    tallies = {length: Tally(*each) for length, each in zip(lengths, counted, strict=True)}
    return judge_many(tier, objective, tallies, cells.run_at(ends)).burning


def held(at: Ints, length: int, grid: Grid) -> Ints:
    """Find the runs in which a window of `length` cells holds one of these cells."""
    return runs.joined(grid.evaluations(at), grid.evaluations(at + length))


def changes(cells: Cells, lengths: Sequence[int], grid: Grid, within: Ints) -> Ints:
    """List the evaluations, of those within some runs, at which a window's count may change."""
    if runs.length(within) <= (1 + len(lengths)) * cells.at.size:
        return runs.points_of(within)
    moved = (cells.at, *(cells.at + length for length in lengths))
    every = [runs.inside(within, grid.evaluations(each)) for each in moved]
    together = np.sort(np.concatenate((within[:, 0], *every)))
    return np.asarray(together[np.append(True, np.diff(together) > 0)], np.int64)


def true_runs(judge: Callable[[Ints], Flags], points: Ints, within: Ints) -> Ints:
    """Judge at each point; the answer holds until the next one, or until its run ends."""
    if not points.size:
        return runs.NOTHING
    flags = judge(points)
    run = np.searchsorted(within[:, 0], points, side="right") - 1
    until = np.minimum(np.append(points[1:], within[-1, 1]), within[run, 1])
    return runs.joined(points[flags], until[flags])
