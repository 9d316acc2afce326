"""A circuit breaker: stop asking a worker that keeps failing, then try it with one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Circuit(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(slots=True)
class Breaker:
    """`on_change` hears (from, to); times are monotonic seconds."""

    failures_to_open: int = 3
    open_s: float = 5.0
    state: Circuit = Circuit.CLOSED
    on_change: Callable[[Circuit, Circuit], None] = lambda _was, _now: None
    _failures: int = 0
    _opened_at: float = 0.0
    _trying: bool = False

    def allows(self, now: float) -> bool:
        """Tell whether a request may be sent; after `open_s` exactly one may, as a trial."""
        match self.state:
            case Circuit.CLOSED:
                return True
            case Circuit.OPEN:
                return now - self._opened_at >= self.open_s
            case Circuit.HALF_OPEN:
                return not self._trying

    def begin(self, now: float) -> None:
        """Note that a request is being sent."""
        if self.state is Circuit.OPEN and self.allows(now):
            self._move(Circuit.HALF_OPEN)
        if self.state is Circuit.HALF_OPEN:
            self._trying = True

    def succeeded(self) -> None:
        self._failures = 0
        self._trying = False
        self._move(Circuit.CLOSED)

    def failed(self, now: float) -> None:
        self._failures += 1
        self._trying = False
        if self.state is Circuit.HALF_OPEN or self._failures >= self.failures_to_open:
            self._opened_at = now
            self._move(Circuit.OPEN)

    def undecided(self) -> None:
        """Note that a request ended without telling anything: its client left."""
        self._trying = False

    def _move(self, to: Circuit) -> None:
        if to is not self.state:
            was, self.state = self.state, to
            self.on_change(was, to)
