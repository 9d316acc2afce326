"""What an SLO about dollars is, once its document has been read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from functools import cached_property

from slo.calendar import Calendar
from slo.compile import is_true, to_sql
from slo.expression import Expression
from slo.overrides import Chooser, Group, Matching
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


@dataclass(frozen=True, slots=True)
class CostOverride(Matching):
    """What holds for groups with these members: whole, but for texts added to the SLO's."""

    at_most: int
    min_overspend: int
    tiers: tuple[Tier, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CostSlo:
    """What a unit may cost at most, in pico-dollars, judged per group.

    `eligible` says whose spending counts (None: everybody's); a request is good when every clause
    of `good` is true. A tier burns from an overspend of `min_overspend` in its long window on.
    Ask `for_group` before judging a group: the first of `overrides` that matches it holds.
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
    overrides: tuple[CostOverride, ...] = ()

    @cached_property
    def variants(self) -> tuple[CostSlo, ...]:
        """The SLO as it is for groups that no override matches, then for those of each override."""
        alone = replace(self, overrides=())
        return (
            alone,
            *(
                replace(
                    alone,
                    at_most=each.at_most,
                    min_overspend=each.min_overspend,
                    tiers=each.tiers,
                    labels={**self.labels, **each.labels},
                    annotations={**self.annotations, **each.annotations},
                )
                for each in self.overrides
            ),
        )

    def for_group(self, group: Group) -> CostSlo:
        """Return the SLO as it is for one group, without overrides."""
        number = self._chooser.of(group)
        return self.variants[0 if number is None else number + 1]

    @cached_property
    def _chooser(self) -> Chooser:
        return Chooser(self.group_by, self.overrides)

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
