"""Alert tiers for spending. Pure.

A burn of 1 is exactly on budget for ever, so factors are small and windows long; there is no most
that could be reached, so every tier can fire. Money that is gone wakes nobody up unless it runs
away: five times too dear over six hours spends 4 % of a month's allowance.
"""

from __future__ import annotations

from datetime import timedelta

from slo.tiers import Tier, hold_of
from slo.verdict import Severity

_MONTH = timedelta(days=30)
_MINUTE = timedelta(minutes=1)

# name, severity, factor, long and short window of a month's budget, and at least
_SHAPES: tuple[tuple[str, Severity, float, timedelta, timedelta, int, int], ...] = (
    ("runaway", "page", 5.0, timedelta(hours=6), timedelta(hours=1), 6, 1),
    ("dear", "ticket", 2.0, timedelta(days=1), timedelta(hours=6), 12, 3),
    ("drift", "ticket", 1.1, timedelta(days=7), timedelta(days=1), 30, 6),
)


def derive(window: timedelta) -> tuple[Tier, ...]:
    """Make the tiers of a budget window; they shrink below 30 days, to whole minutes."""
    scale = min(1.0, window / _MONTH)
    found = []
    for name, severity, factor, long, short, least_long, least_short in _SHAPES:
        whole = max(round(long * scale / _MINUTE), least_long) * _MINUTE
        part = max(round(short * scale / _MINUTE), least_short) * _MINUTE
        if whole <= window:
            hold = hold_of(part, window)
            found.append(Tier(name, severity, factor, whole, part, min_bad=0, hold=hold))
    return tuple(found)
