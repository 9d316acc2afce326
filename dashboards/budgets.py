"""How each budget was spent over its window: full at the start, what is left now at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboards.reader import PATIENCE_S, SHARED, Reader
from slo.exclusion import resolve
from slo.model import Slo
from slo.series import Series, read_series
from slo.verdict import Verdict

POINTS = 60
# Steps that are whole numbers of the buckets that are kept, so that a month is not read by minutes.
_STEPS = tuple(
    timedelta(seconds=s)
    for s in (10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600)
)
_LONGEST = timedelta(minutes=1)
Key = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """The budget left after all requests up to an instant; negative is overspent."""

    at: datetime
    remaining: float


def key_of(verdict: Verdict) -> Key:
    return verdict.slo, tuple(verdict.group.values())


def read_burndown(
    reader: Reader, verdicts: Sequence[Verdict]
) -> dict[Key, tuple[BudgetPoint, ...]]:
    """Read the burn-down of every verdict, one query per SLO, and not again before it moved."""
    ends = {v.slo: v.at for v in sorted(verdicts, key=lambda v: v.at)}
    reading = [
        reader.start(_read_series, reader, slo, ends[slo.name])
        for slo in reader.deps.slos()
        if slo.name in ends
    ]
    found = {key: series for each in reading for key, series in each.result(PATIENCE_S).items()}
    return {key_of(v): burndown(v, found[key_of(v)]) for v in verdicts if key_of(v) in found}


def _read_series(reader: Reader, slo: Slo, end: datetime) -> dict[Key, Series]:
    keep = min(max(slo.window / 5000, SHARED), _LONGEST)
    series: list[Series] = reader.memo.get(
        ("burndown", slo.name, slo.window),
        keep,
        lambda: _series(reader, slo, end),
    )
    return {(slo.name, tuple(each.group.values())): each for each in series}


def _series(reader: Reader, slo: Slo, end: datetime) -> list[Series]:
    start, step = end - slo.window, step_of(slo.window)
    excluded = resolve(reader.deps.exclusions(), [slo], start, end + step)
    return read_series(reader.deps.engine, slo, start, end, step, excluded)


def burndown(verdict: Verdict, series: Series) -> tuple[BudgetPoint, ...]:
    """Add up the bad requests of each step against what the whole window allows.

    The last point is the verdict's own, so the line ends at the number beside it.
    """
    if verdict.objective is None:
        return ()
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
