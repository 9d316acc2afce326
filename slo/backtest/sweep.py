"""One group's readings over a history: which tiers burn, from which evaluation on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slo.backtest import runs
from slo.backtest.burning import held, tier_burns
from slo.backtest.cells import Cells, Grid, Ints
from slo.evaluator import windows_of
from slo.model import Slo


@dataclass(frozen=True, slots=True)
class Sight:
    """What an evaluation sees of a group: tiers that burn, in the document's order.

    `is_frozen`: the sources are silent. `is_there`: the group was seen in the budget window, so
    it has a verdict.
    """

    burning: tuple[bool, ...]
    is_frozen: bool
    is_there: bool


@dataclass(frozen=True, slots=True)
class Change:
    """From this evaluation on, until the next change."""

    evaluation: int
    sight: Sight


@dataclass(frozen=True, slots=True)
class Span:
    """The evaluations of a backtest: [first, end)."""

    first: int
    end: int


def sweep(slo: Slo, cells: Cells, grid: Grid, span: Span, frozen: Ints) -> list[Change]:
    """Judge one group at every evaluation of the span; returns what changed, and when."""
    windows = windows_of(slo)
    tiers = [
        tier_burns(cells, tier, slo.objective, windows, grid, span.first, span.end)
        for tier in slo.tiers
    ]
    there = runs.clipped(held(cells.at, grid.cells(slo.window), grid), span.first, span.end)
    if not slo.group_by:  # an SLO without groups always has its one verdict
        there = runs.clipped(runs.whole(span.first, span.end), span.first, span.end)
    return _changes([*tiers, frozen, there], span)


def _changes(every: Sequence[Ints], span: Span) -> list[Change]:
    edges: list[tuple[int, int, bool]] = []
    for number, found in enumerate(every):
        for start, end in runs.clipped(found, span.first, span.end).tolist():
            edges += [(start, number, True), (end, number, False)]
    edges.sort()
    state = [False] * len(every)
    out = [Change(span.first, _sight(state))]
    for evaluation, number, is_on in edges:
        state[number] = is_on
        if evaluation >= span.end:
            break
        if out[-1].evaluation == evaluation:
            out.pop()
        out.append(Change(evaluation, _sight(state)))
    return out


def _sight(state: Sequence[bool]) -> Sight:
    return Sight(tuple(state[:-2]), state[-2], state[-1])
