"""Which rollup answers a window, and in what steps: about 150 points, whatever the window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from base.durations import floor_to
from cost.read import Window

_CHOICES = (
    (timedelta(minutes=20), "rollup_10s", timedelta(seconds=10)),
    (timedelta(hours=1, minutes=30), "rollup_10s", timedelta(seconds=30)),
    (timedelta(hours=8), "rollup_1m", timedelta(minutes=3)),
    (timedelta(hours=30), "rollup_1m", timedelta(minutes=10)),
    (timedelta(days=8), "rollup_1h", timedelta(hours=1)),
    (timedelta(days=32), "rollup_1h", timedelta(hours=6)),
)
_FINEST_KEPT = timedelta(days=2)
_MINUTES_KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Plan:
    """A table to read and the steps to group it by; `start` is the first step's beginning."""

    table: str
    step: timedelta
    start: datetime
    end: datetime

    @property
    def step_s(self) -> int:
        return round(self.step.total_seconds())


def plan(window: Window, now: datetime) -> Plan:
    """Pick the finest rollup that is still kept at the window's start."""
    length = window.end - window.start
    table, step = next(
        ((t, s) for longest, t, s in _CHOICES if length <= longest),
        ("rollup_1h", timedelta(days=1)),
    )
    if table == "rollup_10s" and window.start < now - _FINEST_KEPT:
        table, step = "rollup_1m", max(step, timedelta(minutes=1))
    if table == "rollup_1m" and window.start < now - _MINUTES_KEPT:
        table, step = "rollup_1h", max(step, timedelta(hours=1))
    return Plan(table, step, floor_to(window.start, step), window.end)
