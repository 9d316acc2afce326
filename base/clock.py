"""The only reader of time. Everything else is given a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What time it is, and how much of it has passed."""

    def now(self) -> datetime:
        """Return the wall clock, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards; only differences mean anything."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands still until a test, or a replay, moves it."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError("ManualClock needs an aware datetime")
        self._now = start.astimezone(UTC)
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, step: timedelta) -> None:
        """Move both clocks forward by `step`."""
        self._now += step
        self._elapsed += max(0.0, step.total_seconds())

    def jump(self, to: datetime) -> None:
        """Set the wall clock, as an operator or NTP would; the monotonic clock does not move."""
        self._now = to.astimezone(UTC)
