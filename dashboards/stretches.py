"""Which part of a budget a burn-down shows: its window, a calendar period, or the newest hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from base.durations import format_duration, parse_duration
from dashboards.slo_state import WINDOW
from slo.verdict import PeriodVerdict, Verdict

_NEWEST = ("7d", "24h", "6h", "1h")
_LESS = 0.75  # of the window: the newest day of 25 hours is hardly another picture


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time up to now and the budget of which something was spent in it.

    `ends` is when the budget ends, later than now for a calendar period. `is_whole`: the budget
    was untouched at `start`. `total` and `remaining` are of the budget, not of the stretch.
    """

    key: str  # in the address
    label: str
    start: datetime
    now: datetime
    ends: datetime
    total: int
    remaining: float | None
    is_whole: bool = True
    is_rolling: bool = True  # what the forecast is about

    @property
    def length(self) -> timedelta:
        return self.now - self.start


def stretches(verdict: Verdict) -> list[Stretch]:
    """List what can be shown of a verdict's budget, the whole window first."""
    now, window = verdict.at, verdict.window
    total, left = verdict.total, verdict.budget_remaining
    whole = Stretch(WINDOW, format_duration(window), now - window, now, now, total, left)
    if verdict.cost is not None:  # dollars are remembered by day
        return [whole]
    newest = [
        Stretch(text, text, now - parse_duration(text), now, now, total, left, is_whole=False)
        for text in _NEWEST
        if parse_duration(text) < window * _LESS
    ]
    zones = {period.zone for period in verdict.periods}
    return [whole, *(_period(each, now, zones) for each in verdict.periods), *newest]


def chosen_stretch(verdict: Verdict, key: str) -> Stretch:
    """Find what the address asks for, or the window."""
    known = stretches(verdict)
    return next((each for each in known if each.key == key), known[0])


def _period(each: PeriodVerdict, now: datetime, zones: Sequence[str] | set[str]) -> Stretch:
    name = each.period if len(zones) == 1 else f"{each.period}:{each.zone}"
    return Stretch(
        name, f"this {each.period}" + (f", {each.zone}" if len(zones) > 1 else ""),
        each.start, now, each.end, each.total, each.budget_remaining, is_rolling=False,
    )  # fmt: skip
