"""How evenly a stream comes: the time between its tokens, as whoever reads it sees it."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field


@dataclass(slots=True)
class Gaps:
    """Times from one event with content to the next; those that come in one piece have none.

    A few bytes a token, for as long as the answer goes on.
    """

    _last_s: float | None = None
    _waits_s: array[float] = field(default_factory=lambda: array("d"))
    _at_once: int = 0  # gaps of zero

    def came(self, at_s: float, events: int = 1) -> None:
        """Note events that came together at an instant, in order of time."""
        if self._last_s is not None:
            self._waits_s.append(at_s - self._last_s)
        self._at_once += events - 1
        self._last_s = at_s

    def p95_s(self) -> float | None:
        """Return the wait that 19 of 20 gaps do not exceed (nearest rank); None without a gap."""
        count = len(self._waits_s) + self._at_once
        if not count:
            return None
        rank = math.ceil(0.95 * count) - 1 - self._at_once
        return sorted(self._waits_s)[rank] if rank >= 0 else 0.0
