"""What an SLO about dollars is, once its document has been read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from slo.calendar import Calendar
from slo.compile import is_true, to_sql
from slo.expression import Expression
from slo.parse import Clause
from slo.tiers import Tier

PICO = 10**12
"""Money is whole pico-dollars, as in the ledger."""


class Per(StrEnum):
    """What one unit is."""

    REQUEST = "request"
    GOOD_REQUEST = "good_request"
    TASK = "task"
    MILLION_TOKENS = "million_tokens"


class Idle(StrEnum):
    """Who bears the GPU-hours that nobody used, and overhead: nobody here, or all by their use."""

    APART = "apart"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Ask:
    """Whose spending is asked for: groups, and a condition (SQL over `facts`) or all requests."""

    group_by: tuple[str, ...]
    condition: str | None = None


@dataclass(frozen=True)
class CostSlo:
    """What a unit may cost at most, in pico-dollars, judged per group.

    `eligible` says whose spending counts (None: everybody's); a request is good when every clause
    of `good` is true. A tier burns from an overspend of `min_overspend` in its long window on.
    """

    name: str
    at_most: int
    per: Per
    window: timedelta
    tiers: tuple[Tier, ...]
    good: tuple[Clause, ...] = ()
    eligible: Expression | None = None
    group_by: tuple[str, ...] = ()
    idle: Idle = Idle.APART
    min_overspend: int = PICO
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    calendars: tuple[Calendar, ...] = ()

    @property
    def ask(self) -> Ask:
        conditions = [] if self.eligible is None else [is_true(self.eligible)]
        if self.per is Per.TASK:
            conditions.append("task_id != ''")
        return Ask(self.group_by, " AND ".join(conditions) or None)

    @property
    def counted(self) -> str:
        """Name what is read from the store: SLOs that read the same share it."""
        good = [to_sql(clause.expression) for clause in self.good]
        return repr((self.ask, good, self.per is Per.TASK))


def usd(pico: int) -> float:
    return pico / PICO
