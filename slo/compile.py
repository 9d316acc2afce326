"""Expression tree -> ClickHouse SQL. Nothing of the text that was parsed is copied."""

from __future__ import annotations

from slo.expression import (
    Absolute,
    All,
    AnyOf,
    Arithmetic,
    Column,
    Comparison,
    Expression,
    FirstKnown,
    Matches,
    Negative,
    Not,
    OneOf,
    Unknown,
    Value,
)
from store.literals import quoted


def to_sql(expression: Expression) -> str:  # noqa: C901, PLR0911, PLR0912  one case a node
    """Write an expression as SQL over `facts`; a condition may come out NULL.

    No number comes out as -0: the engine looks up three or more equalities in a set, by their bits.
    """
    match expression:
        case Column(column):
            return column.sql
        case Value(value):
            return literal(value)
        case Arithmetic("/", left, right):
            return f"({to_sql(left)} / nullIf({to_sql(right)}, 0.) + 0.)"
        case Arithmetic("*", left, right):
            return f"({to_sql(left)} * {to_sql(right)} + 0.)"
        case Arithmetic(operator, left, right) | Comparison(operator, left, right):
            return f"({to_sql(left)} {operator} {to_sql(right)})"
        case Negative(operand):
            return f"(0. - {to_sql(operand)})"
        case Absolute(operand):
            return f"abs({to_sql(operand)})"
        case FirstKnown(operands):
            return f"coalesce({', '.join(to_sql(operand) for operand in operands)})"
        case OneOf(operand, values):
            # One comparison each keeps NULL unknown whatever `transform_null_in` says.
            tests = (f"{to_sql(operand)} = {literal(value.value)}" for value in values)
            return f"({' OR '.join(tests)})"
        case Matches(operand, pattern):
            return f"({to_sql(operand)} LIKE {literal(pattern)})"
        case Unknown(operand):
            return f"({to_sql(operand)} IS NULL)"
        case Not(operand):
            return f"(NOT {to_sql(operand)})"
        case All(operands):
            return f"({' AND '.join(to_sql(operand) for operand in operands)})"
        case AnyOf(operands):
            return f"({' OR '.join(to_sql(operand) for operand in operands)})"


def literal(value: str | float | bool) -> str:
    """Write a constant; text is escaped for ClickHouse, numbers are doubles."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    return f"toFloat64({value + 0.0!r})"


def is_true(expression: Expression) -> str:
    """Write a condition that is 1 or 0: unknown is 0."""
    return f"ifNull({to_sql(expression)}, 0)"
