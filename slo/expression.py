"""The tree of a filter expression.

Only what is written here can reach the engine: text is parsed into this tree, and both the SQL
(`slo.compile`) and the row interpreter (`slo.interpret`) are made from it.

Logic is three-valued, as in SQL. An unknown operand makes a comparison unknown, and a request whose
`eligible` or `good` ends unknown is not eligible, not good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slo.columns import FactColumn, Kind


@dataclass(frozen=True, slots=True)
class Column:
    column: FactColumn


@dataclass(frozen=True, slots=True)
class Value:
    value: str | float | bool


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Division by zero is unknown."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Absolute:
    operand: Expression


@dataclass(frozen=True, slots=True)
class FirstKnown:
    """`coalesce`: the first operand that is known."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: Literal["=", "!=", "<", "<=", ">", ">="]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class OneOf:
    operand: Expression
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """`like`: % is any text, _ any one character, a backslash takes the next one as it is."""

    operand: Expression
    pattern: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """`is null`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression


@dataclass(frozen=True, slots=True)
class All:
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    operands: tuple[Expression, ...]


Expression = (
    Column | Value | Arithmetic | Negative | Absolute | FirstKnown
    | Comparison | OneOf | Matches | Unknown | Not | All | AnyOf
)  # fmt: skip


def kind_of(expression: Expression) -> Kind:
    """Say what an expression yields."""
    match expression:
        case Column(column):
            return column.kind
        case Value(bool()):
            return Kind.FLAG
        case Value(str()):
            return Kind.TEXT
        case Value() | Arithmetic() | Negative() | Absolute():
            return Kind.NUMBER
        case FirstKnown(operands):
            return kind_of(operands[0])
        case _:
            return Kind.FLAG


def columns_of(expression: Expression) -> frozenset[str]:
    """Name the columns an expression reads."""
    match expression:
        case Column(column):
            return frozenset({column.name})
        case Value():
            return frozenset()
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return columns_of(left) | columns_of(right)
        case FirstKnown(operands) | All(operands) | AnyOf(operands):
            return frozenset().union(*(columns_of(operand) for operand in operands))
        case (
            Negative(operand) | Absolute(operand) | Unknown(operand) | Not(operand)
            | Matches(operand, _) | OneOf(operand, _)
        ):  # fmt: skip
            return columns_of(operand)
