"""Alert tiers that can fire at the stated objective. Pure.

The classic tiers (14.4, 6, 3, 1) assume 99.9 %. A total outage burns at 1 / (1 - objective): 10 at
90 %, so 14.4 never fires there and 6 takes hours. Here a factor is the classic one where the
objective leaves room for it, and otherwise a fixed share of the way from 1 (on budget) to the
burn of a total outage. A fifth tier with a five-minute window watches for outages: it fires when
four fifths of that way are reached, after at most four minutes of total outage at any objective.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from slo.budget import allowance
from slo.slices import whole_slices
from slo.verdict import Severity

MIN_BAD = 5
"""Bad requests that make an incident. The guard alone would page for two failures in a row at
99.9 %: right if requests fail independently, but one client's retries do not."""
HOLD = timedelta(minutes=30)
"""An incident is over when nothing burned for so long; less where the SLO window is short."""

_CLASSIC = timedelta(days=30)
_OUTAGE_CLASSIC = timedelta(days=1)
_STEP = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Tier:
    """Burning when both windows burn at `factor` or more and the guard is satisfied.

    `slo.burn.judge_many` has the rule; `hold` is how long the tier must keep quiet before an
    incident that it opened is over.
    """

    name: str
    severity: Severity
    factor: float
    long: timedelta
    short: timedelta
    min_bad: int = MIN_BAD
    hold: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class _Shape:
    name: str
    severity: Severity
    classic_factor: float
    reach: float  # share of the way from burn 1 to a total outage
    long: timedelta  # for the classic SLO window
    short: timedelta
    least_long: timedelta  # however short the SLO window is
    least_short: timedelta


def _shape(
    name: str,
    severity: Severity,
    factor: float,
    reach: float,
    minutes: tuple[int, int],
    least_s: tuple[int, int],
) -> _Shape:
    return _Shape(
        name,
        severity,
        factor,
        reach,
        timedelta(minutes=minutes[0]),
        timedelta(minutes=minutes[1]),
        timedelta(seconds=least_s[0]),
        timedelta(seconds=least_s[1]),
    )


_SHAPES = (
    _shape("outage", "page", float("inf"), 0.8, (5, 1), (30, 10)),
    _shape("fast", "page", 14.4, 0.5, (60, 5), (60, 10)),
    _shape("slow", "page", 6.0, 0.3, (360, 30), (120, 20)),
    _shape("drift", "ticket", 3.0, 0.2, (1440, 120), (240, 30)),
    _shape("trickle", "ticket", 1.0, 0.0, (4320, 360), (360, 60)),
)


def max_burn(objective: float) -> float:
    """Burn of a total outage: no factor at or above it can ever fire."""
    return 1 / allowance(objective)


def can_fire(factor: float, objective: float) -> bool:
    return factor < max_burn(objective)


def outage_to_fire(tier: Tier, objective: float) -> timedelta | None:
    """Say how long a total outage of steady traffic must last to fire the tier; None: for ever.

    The long window fills with failures until they are factor x allowance of it (SRE workbook
    ch. 5); the short one fills sooner.
    """
    if not can_fire(tier.factor, objective):
        return None
    return tier.factor * allowance(objective) * tier.long


def derive(
    objective: float,
    window: timedelta,
    min_bad: int = MIN_BAD,
    slice_length: timedelta | None = None,
) -> tuple[Tier, ...]:
    """Make the tiers of an SLO from its objective and window.

    Windows shrink with an SLO window under 30 days, so that a tier always means the same share of
    the budget, down to a floor; they do not grow with a longer one. Those of slices are whole
    slices, and a long one holds `min_bad` of them.
    """
    tiers = (_fit(shape, objective, window, min_bad) for shape in _SHAPES)
    return _within(tiers, window, slice_length)


def classic(
    window: timedelta, min_bad: int = MIN_BAD, slice_length: timedelta | None = None
) -> tuple[Tier, ...]:
    """Make the tiers of the SRE workbook (ch. 5), whatever the objective: some may never fire."""
    shapes = (shape for shape in _SHAPES if shape.classic_factor < float("inf"))
    tiers = (_sized(shape, shape.classic_factor, window, min_bad) for shape in shapes)
    return _within(tiers, window, slice_length)


def hold_of(short: timedelta, window: timedelta) -> timedelta:
    """Say how long a tier must keep quiet before its incident is over."""
    return max(short, min(HOLD, window / (_CLASSIC / HOLD)))


def _within(
    tiers: Iterable[Tier], window: timedelta, slice_length: timedelta | None
) -> tuple[Tier, ...]:
    if slice_length is not None:
        tiers = _of_slices(tiers, window, slice_length)
    return tuple(tier for tier in tiers if tier.long <= window)


def _of_slices(tiers: Iterable[Tier], window: timedelta, slice_length: timedelta) -> Iterable[Tier]:
    """Round windows up to slices; of tiers that look at the same ones the most sensitive stays."""
    found: dict[tuple[Severity, timedelta, timedelta], Tier] = {}
    for tier in tiers:
        short = whole_slices(tier.short, slice_length)
        long = whole_slices(tier.long, slice_length, least=max(2, tier.min_bad))
        if long <= short:
            long = short + slice_length
        key = (tier.severity, long, short)
        if key not in found or tier.factor < found[key].factor:
            hold = hold_of(short, window)
            found.pop(key, None)
            found[key] = replace(tier, long=long, short=short, hold=hold)
    return found.values()


def _fit(shape: _Shape, objective: float, window: timedelta, min_bad: int) -> Tier:
    reachable = 1 + shape.reach * (max_burn(objective) - 1)
    return _sized(shape, round(min(shape.classic_factor, reachable), 6), window, min_bad)


def _sized(shape: _Shape, factor: float, window: timedelta, min_bad: int) -> Tier:
    reference = _OUTAGE_CLASSIC if shape.name == "outage" else _CLASSIC
    scale = min(1.0, window / reference)
    short = max(_whole_steps(shape.short * scale), shape.least_short)
    return Tier(
        name=shape.name,
        severity=shape.severity,
        factor=factor,
        long=max(_whole_steps(shape.long * scale), shape.least_long),
        short=short,
        min_bad=min_bad,
        hold=hold_of(short, window),
    )


def _whole_steps(span: timedelta) -> timedelta:
    return round(span / _STEP) * _STEP
