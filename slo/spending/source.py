"""Where dollars come from: the ledger, seen from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from slo.spending.cell import Bearer, Group, Pool
from slo.spending.model import Ask

Hour = int  # whole hours since the epoch
Hours = tuple[Hour, Hour]  # the first, and the one after the last


@dataclass(frozen=True, slots=True)
class HourSpending:
    """What the ledger says of one hour, or of the part of it that was asked for.

    Dollars are pico-dollars. `unpriced` and `unmeasured` count requests, as in the ledger.
    """

    charged: Mapping[tuple[Bearer, Pool], int]
    unused: Mapping[Pool, int]
    unpriced: Mapping[Group, int]
    unmeasured: Mapping[Group, int]


class Spending(Protocol):
    """Reads what groups were charged. Whole hours add up: any two readings of them agree."""

    def read(self, ask: Ask, start: datetime, end: datetime) -> Mapping[Hour, HourSpending]:
        """Read [start, end), by hour; hours without anything may be missing."""
        ...

    def changed(self) -> Sequence[Hours]:
        """Name the hours whose charges may have changed since it was last asked this.

        Only for other reasons than requests that changed, whose hours the asker knows.
        """
        ...
