"""What a request weighs where not each counts the same: tokens, dollars, seconds. Pure.

A weight is a number over request facts, counted in whole units so that any two sums agree: tokens,
millionths of a dollar, milliseconds. Rounding is to the nearest, halves to the even one, as Python
and the engine both do. One that is unknown, negative or above `HEAVIEST` is no weight: such a
request is *unweighed*, judged and counted as a request, and in no sum of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slo.compile import to_sql
from slo.expression import (
    Absolute,
    Arithmetic,
    Column,
    Expression,
    FirstKnown,
    Negative,
    Value,
    columns_of,
)

HEAVIEST = 10**9
"""In counted units, a thousand dollars: a billion of such requests still fit in a 64-bit sum."""


@dataclass(frozen=True, slots=True)
class Unit:
    """`name` as documents write it, `counted` what the integers count, `scale` of them in one."""

    name: str
    counted: str
    scale: int


UNITS: Mapping[str, Unit] = {
    "tokens": Unit("tokens", "tokens", 1),
    "usd": Unit("usd", "micro_usd", 1_000_000),
    "seconds": Unit("seconds", "ms", 1000),
}
REQUESTS, VERDICTS = "requests", "verdicts"
"""What is counted without a weight: requests, or in a sum of components their verdicts."""


@dataclass(frozen=True, slots=True)
class Weight:
    by: Expression
    unit: Unit


def unit_of(expression: Expression) -> Unit | None:
    """Say the unit of an expression over columns of one kind; None where it must be said."""
    columns = columns_of(expression)
    if columns and all(name.endswith("_tokens") for name in columns):
        return UNITS["tokens"]
    return UNITS["usd"] if columns == {"reported_cost_usd"} else None


def weight_sql(weight: Weight | None, name: str) -> tuple[str, str]:
    """Write whether a fact has a weight (1 or 0), and the weight (0 where it has none).

    The first one defines aliases that begin with `name`, which the second reads.
    """
    if weight is None:
        return "toUInt8(1)", "toUInt64(1)"
    asked = f"(toNullable({to_sql(weight.by)}) * {float(weight.unit.scale)!r} AS {name})"
    within = f"{asked} >= 0 AND {name} <= {float(HEAVIEST)!r}"
    is_known = f"(toUInt8(ifNull({within}, 0)) AS {name}_known)"
    return is_known, f"toUInt64(round(if({name}_known = 1, ifNull({name}, 0.), 0.)))"


def may_be_unknown(expression: Expression) -> bool:
    """Say whether some request may lack what an expression reads."""
    match expression:
        case Column(column):
            return column.name not in _ALWAYS_KNOWN
        case FirstKnown(operands):
            return all(map(may_be_unknown, operands))
        case Arithmetic("/", left, right):
            return may_be_unknown(left) or not isinstance(right, Value) or right.value == 0
        case Arithmetic(_, left, right):
            return may_be_unknown(left) or may_be_unknown(right)
        case Negative(operand) | Absolute(operand):
            return may_be_unknown(operand)
    return False


_ALWAYS_KNOWN = frozenset({"attempts"})
