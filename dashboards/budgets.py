"""How each budget was spent over its window: full at the start, what is left now at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cost.read import Window
from dashboards.reader import PATIENCE_S, SHARED, Reader
from dashboards.stretches import Stretch, stretches
from slo.exclusion import resolve
from slo.model import Slo
from slo.series import Series, read_series
from slo.verdict import Verdict

POINTS = 60
FINE = 2 * POINTS  # of a budget that has a page to itself
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
    dear = [v for v in verdicts if v.cost is not None]
    spending = reader.start(lambda: {key_of(v): read_spending(reader, v) for v in dear})
    found = {key: series for each in reading for key, series in each.result(PATIENCE_S).items()}
    points = {key_of(v): burndown(v, found[key_of(v)]) for v in verdicts if key_of(v) in found}
    return points | spending.result(PATIENCE_S)


def read_spending(reader: Reader, verdict: Verdict) -> tuple[BudgetPoint, ...]:
    """Read how a group's allowance of dollars was spent over its window, and not twice a minute."""
    cost, left = verdict.cost, verdict.budget_remaining
    if cost is None or left is None:
        return ()
    spent_by = reader.memo.get(
        ("spending", verdict.slo),
        _LONGEST,
        lambda: reader.deps.spending(verdict.slo, cost.at),
    )
    known = spent_by.get(tuple(verdict.group.values()))
    if known is None:
        return ()
    allowed, start = cost.whole.allowed_usd, verdict.at - verdict.window
    return (
        BudgetPoint(start, 1.0),
        *(BudgetPoint(at, 1 - usd / allowed) for at, usd in known if start < at < verdict.at),
        BudgetPoint(verdict.at, left),
    )


def _read_series(reader: Reader, slo: Slo, end: datetime) -> dict[Key, Series]:
    keep = _kept(slo.window)
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
    """Show how a verdict's whole window was spent."""
    return spent(stretches(verdict)[0], allowed_of(verdict, verdict.total), series)


def read_spent(
    reader: Reader, slo: Slo, verdict: Verdict, stretch: Stretch
) -> tuple[BudgetPoint, ...]:
    """Read how one group's budget was spent over a stretch, and not again before it moved.

    Nothing where nothing was judged.
    """
    if not stretch.total or stretch.remaining is None:
        return ()
    step = step_of(stretch.length, FINE)
    group = tuple(verdict.group.values())
    counts: Series | None = reader.memo.get(
        ("spent", slo.name, slo.definition, group, stretch.key),
        _kept(stretch.length),
        lambda: read_counts(reader, slo, verdict, Window(stretch.start, stretch.now), step),
    )
    return () if counts is None else spent(stretch, allowed_of(verdict, stretch.total), counts)


def read_counts(
    reader: Reader, slo: Slo, verdict: Verdict, window: Window, step: timedelta
) -> Series | None:
    """Read one group's good and bad requests by step; None where it had none."""
    excluded = resolve(reader.deps.exclusions(), [slo], window.start, window.end + step)
    group = tuple(verdict.group.values())
    found = read_series(
        reader.deps.engine, slo, window.start, window.end, step, excluded, groups=[group]
    )
    return next((each for each in found if tuple(each.group.values()) == group), None)


def allowed_of(verdict: Verdict, total: int) -> float:
    """Count how many of so many may be bad; none where dollars are judged, not requests."""
    return 0.0 if verdict.objective is None else total * (1 - verdict.objective)


def spent(stretch: Stretch, allowed: float, counts: Series) -> tuple[BudgetPoint, ...]:
    """Add up the bad requests of a stretch against what the whole budget allows.

    The last point is what is left now, so the line ends at the number beside it.
    A budget that was untouched at the start begins at 1. Of the newest hours of a window the
    beginning is what is left now and what was spent since.
    """
    if allowed <= 0 or stretch.remaining is None:
        return ()
    left = 1.0 if stretch.is_whole else stretch.remaining + sum(counts.bad) / allowed
    points = [BudgetPoint(stretch.start, left)]
    for at, bad in zip(counts.at, counts.bad, strict=True):
        left -= bad / allowed
        points.append(BudgetPoint(at, left))
    return (*points, BudgetPoint(stretch.now, stretch.remaining))


def _kept(length: timedelta) -> timedelta:
    """Say how long counts of a time may serve: the longer it is, the less it moves."""
    return min(max(length / 5000, SHARED), _LONGEST)


def step_of(window: timedelta, points: int = POINTS) -> timedelta:
    """Pick the step that gives about so many points."""
    return next((step for step in _STEPS if window / step <= points * 1.5), _STEPS[-1])
