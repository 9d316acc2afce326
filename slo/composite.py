"""An SLO made of others: what its components ask of a request, as questions of its own. Pure.

`all`: a request is asked about if some component asks about it, and is good if it is good for each
that does. That is an ordinary filter, so such an SLO is counted like any other.

`sum`: the verdict of each component that asks is an event of its own, with a whole number as
weight. The indicator is a ratio of sums of events, never an average of ratios.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slo.expression import AnyOf, Expression, FirstKnown, Not, Value
from slo.parse import Clause
from slo.weight import Weight

MOST_PARTS = 20
HEAVIEST_PART = 1000
"""The largest factor: a component that matters a thousand times less than another is noise."""


class Kind(StrEnum):
    ALL = "all"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Part:
    """A component: what it asks of which requests, and what its verdict weighs in a sum."""

    name: str
    factor: int = 1
    eligible: Expression | None = None
    good: tuple[Clause, ...] = ()
    weight: Weight | None = None

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """Name the clauses as the composite's reasons do."""
        return tuple(Clause(f"{self.name}: {each.name}", each.expression) for each in self.good)


@dataclass(frozen=True, slots=True)
class Composite:
    kind: Kind
    parts: tuple[Part, ...]

    @property
    def eligible(self) -> Expression | None:
        """Ask about what some component asks about; None: about every request."""
        asked = [part.eligible for part in self.parts]
        if any(each is None for each in asked):
            return None
        known = tuple(_is_true(each) for each in asked if each is not None)
        return known[0] if len(known) == 1 else AnyOf(known)

    @property
    def good(self) -> tuple[Clause, ...]:
        """Each component's clauses, which hold for what it does not ask about."""
        return tuple(
            Clause(clause.name, _where_asked(part.eligible, clause.expression))
            for part in self.parts
            for clause in part.clauses
        )


def _where_asked(eligible: Expression | None, condition: Expression) -> Expression:
    return condition if eligible is None else AnyOf((Not(_is_true(eligible)), condition))


def _is_true(condition: Expression) -> Expression:
    """Take what is unknown for false."""
    return FirstKnown((condition, Value(False)))
