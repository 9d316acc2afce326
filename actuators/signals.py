"""The scaling signal of each fleet, as autoscalers read it: a number, or an error. Never a lie."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from base.errors import BadInput, Retryable


@dataclass(frozen=True, slots=True)
class Signal:
    """How many replicas a fleet should have, and why.

    `desired` is None when that may not be said; `why` then says what is missing.
    """

    fleet: str
    desired: int | None
    need: int | None
    at: datetime
    why: str
    lease_id: str | None = None


class SignalBoard:
    """Holds the newest signal per fleet. Written by the loop, read by any thread.

    A signal older than `max_age` is not given out: a loop that stopped must look like an outage
    to the autoscaler, which then holds what it has.
    """

    def __init__(self, fleets: Mapping[str, int], max_age: timedelta) -> None:
        self._max_age = max_age
        self._signals: dict[str, Signal | None] = dict.fromkeys(fleets)
        self._asked: dict[str, datetime] = {}
        self._changed = threading.Condition()

    @property
    def fleets(self) -> tuple[str, ...]:
        return tuple(self._signals)

    def publish(self, signal: Signal) -> None:
        """Replace a fleet's signal and wake who waits for a change."""
        with self._changed:
            self._signals[signal.fleet] = signal
            self._changed.notify_all()

    def read(self, fleet: str, now: datetime) -> tuple[Signal, int]:
        """Return the signal and its number of replicas.

        Raises BadInput for a fleet that is not configured and Retryable when no honest number
        exists.
        """
        with self._changed:
            if fleet not in self._signals:
                known = ", ".join(sorted(self._signals)) or "none"
                raise BadInput(f"no fleet is called {fleet!r}; configured: {known}")
            signal = self._signals[fleet]
        if signal is None:
            raise Retryable(f"fleet {fleet}: nothing has been decided yet")
        if now - signal.at > self._max_age:
            raise Retryable(f"fleet {fleet}: the last decision is from {signal.at:%H:%M:%S}")
        if signal.desired is None:
            raise Retryable(f"fleet {fleet}: {signal.why}")
        return signal, signal.desired

    def asked(self, fleet: str, now: datetime) -> None:
        """Note that an autoscaler took the number."""
        with self._changed:
            self._asked[fleet] = now

    def last_asked(self, fleet: str) -> datetime | None:
        """Return when an autoscaler last took the number: None is a scaler that nobody uses."""
        with self._changed:
            return self._asked.get(fleet)

    def wait(self, timeout_s: float) -> None:
        """Sleep until some signal changes, at most `timeout_s`."""
        with self._changed:
            self._changed.wait(timeout_s)
