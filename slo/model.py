"""What an SLO is, once its document has been read."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from slo.calendar import Calendar
from slo.compile import to_sql
from slo.composite import Composite, Kind, Part
from slo.expression import Expression
from slo.overrides import Chooser, Group, Override
from slo.parse import Clause
from slo.prometheus.sli import PrometheusSli
from slo.slices import SLICES, Slices
from slo.tiers import Tier
from slo.weight import REQUESTS, VERDICTS, Weight


@dataclass(frozen=True)
class Slo:
    """One objective over request facts, judged per group.

    `window` is the rolling one; `calendars` are judged beside it. `eligible` says which requests
    are asked about (None: all); a request is good when every clause of `good` is true. With
    `prometheus` its events are not requests that were seen here, and both are empty. Each request
    counts as one, or as its `weight`. With `composite`, `eligible` and `good` are what its
    components ask together. With `slices` slices of time are counted, which are judged by their
    requests. `overrides` say what holds for some of the groups instead of `objective` and `tiers`;
    the first that matches does. Ask `for_group` before judging one.
    """

    name: str
    objective: float
    window: timedelta
    good: tuple[Clause, ...]
    tiers: tuple[Tier, ...]
    eligible: Expression | None = None
    group_by: tuple[str, ...] = ()
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    calendars: tuple[Calendar, ...] = ()
    prometheus: PrometheusSli | None = None
    overrides: tuple[Override, ...] = ()
    weight: Weight | None = None
    composite: Composite | None = None
    slices: Slices | None = None

    @cached_property
    def variants(self) -> tuple[Slo, ...]:
        """The SLO as it is for groups that no override matches, then for those of each override.

        They have no overrides themselves; name, window and what is counted are the same.
        """
        if not self.overrides:
            return (self,)
        alone = replace(self, overrides=())
        return (
            alone,
            *(
                replace(
                    alone,
                    objective=each.objective,
                    tiers=each.tiers,
                    labels={**self.labels, **each.labels},
                    annotations={**self.annotations, **each.annotations},
                )
                for each in self.overrides
            ),
        )

    def for_group(self, group: Group) -> Slo:
        """Return the SLO as it is for one group, without overrides."""
        return self.variants[self.variant_of(group)]

    def by_variant(self, groups: Sequence[Group]) -> list[tuple[Slo, list[int]]]:
        """Part groups by what holds for them: each variant that has some, and their places."""
        if not self.overrides:
            return [(self, list(range(len(groups))))]
        found: dict[int, list[int]] = defaultdict(list)
        for place, group in enumerate(groups):
            found[self.variant_of(group)].append(place)
        return [(self.variants[number], found[number]) for number in sorted(found)]

    def variant_of(self, group: Group) -> int:
        """Say which of `variants` holds for a group."""
        if not self.overrides:
            return 0
        number = self._chooser.of(group)
        return 0 if number is None else number + 1

    @cached_property
    def _chooser(self) -> Chooser:
        return Chooser(self.group_by, self.overrides)

    @property
    def questions(self) -> tuple[Part, ...]:
        """List what is asked of a request: one question, or in a sum one for each component."""
        if self.composite is not None and self.composite.kind is Kind.SUM:
            return self.composite.parts
        return (Part(self.name, 1, self.eligible, self.good, self.weight),)

    @property
    def is_weighted(self) -> bool:
        """Say whether a request may count as more or less than one."""
        is_sum = self.composite is not None and self.composite.kind is Kind.SUM
        return self.weight is not None or is_sum

    @property
    def unit(self) -> str:
        """Name what good, bad and excluded count."""
        if self.slices is not None:
            return SLICES
        weights = [part.weight for part in self.questions if part.weight is not None]
        if weights:
            return weights[0].unit.counted
        return VERDICTS if self.is_weighted else REQUESTS

    @cached_property
    def definition(self) -> str:
        """Name what is counted by 16 hex digits.

        Two documents that count the same have the same definition, so objective, window, tiers
        and texts can change without counting again.
        """
        counted: dict[str, Any] = {
            "eligible": to_sql(self.eligible) if self.eligible is not None else None,
            "good": [[clause.name, to_sql(clause.expression)] for clause in self.good],
            "group_by": self.group_by,
        }
        if self.prometheus is not None:
            counted = {"prometheus": self.prometheus.counted(), "group_by": self.group_by}
        if self.is_weighted:
            counted["weights"] = [
                [part.factor, _counted(part.weight), _filters(part)] for part in self.questions
            ]
        if self.slices is not None:
            share = self.slices.share
            counted["slices"] = [round(self.slices.length.total_seconds()), str(share)]
        text = json.dumps(counted, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _counted(weight: Weight | None) -> list[Any] | None:
    return None if weight is None else [to_sql(weight.by), weight.unit.scale]


def _filters(part: Part) -> list[Any]:
    eligible = None if part.eligible is None else to_sql(part.eligible)
    return [eligible, [[clause.name, to_sql(clause.expression)] for clause in part.good]]
