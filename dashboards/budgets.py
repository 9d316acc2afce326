"""How each budget was spent over its window: full at the start, what is left now at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from dashboards.memo import Memo
from slo.model import Slo
from slo.series import Series, read_series
from slo.verdict import Verdict
from store.engine import Engine

POINTS = 60
# Steps that are whole numbers of the buckets that are kept, so that a month is not read by minutes.
_STEPS = tuple(
    timedelta(seconds=s)
    for s in (10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600)
)
_SHORTEST, _LONGEST = timedelta(seconds=4), timedelta(minutes=1)
Key = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """The budget left after all requests up to an instant; negative is overspent."""

    at: datetime
    remaining: float


def key_of(verdict: Verdict) -> Key:
    return verdict.slo, tuple(verdict.group.values())


def read_burndown(
    engine: Engine, memo: Memo[Any], slos: Sequence[Slo], verdicts: Sequence[Verdict]
) -> dict[Key, tuple[BudgetPoint, ...]]:
    """Read the burn-down of every verdict, one query per SLO, and not again before it moved."""
    out: dict[Key, tuple[BudgetPoint, ...]] = {}
    for slo in slos:
        mine = {key_of(v): v for v in verdicts if v.slo == slo.name}
        if not mine:
            continue
        end = max(v.at for v in mine.values())
        keep = min(max(slo.window / 5000, _SHORTEST), _LONGEST)
        for series in memo.get(
            ("burndown", slo.name, slo.window), keep, partial(_series, engine, slo, end)
        ):
            key = slo.name, tuple(series.group.values())
            if key in mine:
                out[key] = burndown(mine[key], series)
    return out


def _series(engine: Engine, slo: Slo, end: datetime) -> list[Series]:
    return read_series(engine, slo, end - slo.window, end, step_of(slo.window))


def burndown(verdict: Verdict, series: Series) -> tuple[BudgetPoint, ...]:
    """Add up the bad requests of each step against what the whole window allows.

    The last point is the verdict's own, so the line ends at the number beside it.
    """
    allowed = verdict.total * (1 - verdict.objective)
    if allowed <= 0 or verdict.budget_remaining is None:
        return ()
    points = [BudgetPoint(verdict.at - verdict.window, 1.0)]
    spent = 0
    for at, bad in zip(series.at, series.bad, strict=True):
        spent += bad
        points.append(BudgetPoint(at, 1 - spent / allowed))
    return (*points, BudgetPoint(verdict.at, verdict.budget_remaining))


def step_of(window: timedelta) -> timedelta:
    """Pick the step that gives about sixty points."""
    return next((step for step in _STEPS if window / step <= POINTS * 1.5), _STEPS[-1])
