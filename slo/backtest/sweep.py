"""One group's readings over a history: which tiers burn, from which evaluation on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slo.backtest import runs
from slo.backtest.burning import Watch, held
from slo.backtest.cells import Cells, Evaluations, Grid, Ints
from slo.backtest.heard import Silence
from slo.model import Slo


@dataclass(frozen=True, slots=True)
class Sight:
    """What an evaluation sees of a group, tiers in the document's order.

    `is_frozen`: the sources are silent. `is_there`: the group was seen in the budget window, so
    it has a verdict.
    """

    burning: tuple[bool, ...]
    known: tuple[bool, ...]
    is_frozen: bool
    is_there: bool


@dataclass(frozen=True, slots=True)
class Change:
    """From this evaluation on, until the next change."""

    evaluation: int
    sight: Sight


def sweep(slo: Slo, cells: Cells, grid: Grid, span: Evaluations, silence: Silence) -> list[Change]:
    """Judge one group at every evaluation of the span; returns what changed, and when."""
    watch = Watch(slo, cells, grid, span, silence)
    tiers = [watch.burning(tier) for tier in slo.tiers]
    there = held(cells.at, grid.cells(slo.window), grid)
    if not slo.group_by:  # an SLO without groups always has its one verdict
        there = runs.whole(span.first, span.end)
    every = [*(each.runs for each in tiers), *(each.unknown for each in tiers)]
    return _changes([*every, silence.frozen, there], span)


def _changes(every: Sequence[Ints], span: Evaluations) -> list[Change]:
    edges: list[tuple[int, int, bool]] = []
    for number, found in enumerate(every):
        for start, end in runs.clipped(found, span.first, span.end).tolist():
            edges += [(start, number, True), (end, number, False)]
    edges.sort()
    state = [False] * len(every)
    out = [Change(span.first, _sight(state))]
    for evaluation, number, is_on in edges:
        if evaluation >= span.end:
            break
        state[number] = is_on
        if out[-1].evaluation == evaluation:
            out.pop()
        out.append(Change(evaluation, _sight(state)))
    return out


def _sight(state: Sequence[bool]) -> Sight:
    tiers = (len(state) - 2) // 2
    known = tuple(not unknown for unknown in state[tiers:-2])
    return Sight(tuple(state[:tiers]), known, state[-2], state[-1])
