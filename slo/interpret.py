"""Expression tree evaluated over one row: the definition of what the SQL must answer.

Used by tests as the oracle of `slo.compile`, and by tools that judge facts without an engine.
A row maps column names to values; None, '' and NaN (pandas' unknown) are unknown.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from slo.columns import FactColumn, Kind
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

Scalar = str | float | bool | None

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_COMPUTE: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


def holds(expression: Expression, row: Mapping[str, Any]) -> bool:
    """Say whether a condition is true of a row; unknown is not true."""
    return evaluate(expression, row) is True


def evaluate(  # noqa: C901, PLR0911  one case a node
    expression: Expression, row: Mapping[str, Any]
) -> Scalar:
    """Evaluate over a row; None is unknown."""
    match expression:
        case Column(column):
            return _read(column, row.get(column.name))
        case Value(value):
            return value
        case Negative(operand) | Absolute(operand):
            return _sign(evaluate(operand, row), negate=isinstance(expression, Negative))
        case FirstKnown(operands):
            known = (evaluate(operand, row) for operand in operands)
            return next((value for value in known if value is not None), None)
        case Arithmetic(sign, left, right):
            return _compute(sign, evaluate(left, row), evaluate(right, row))
        case Comparison(sign, left, right):
            a, b = evaluate(left, row), evaluate(right, row)
            return None if a is None or b is None else _COMPARE[sign](a, b)
        case OneOf(operand, values):
            found = evaluate(operand, row)
            return None if found is None else any(found == each.value for each in values)
        case Matches(operand, pattern):
            text = evaluate(operand, row)
            return None if text is None else bool(_like(pattern).fullmatch(str(text)))
        case Unknown(operand):
            return evaluate(operand, row) is None
        case Not(operand):
            truth = evaluate(operand, row)
            return None if truth is None else not truth
        case All(operands):
            return _settle([evaluate(operand, row) for operand in operands], decisive=False)
        case AnyOf(operands):
            return _settle([evaluate(operand, row) for operand in operands], decisive=True)


def _settle(truths: list[Scalar], *, decisive: bool) -> bool | None:
    if any(truth is decisive for truth in truths):
        return decisive
    return None if any(truth is None for truth in truths) else not decisive


def _sign(number: Any, *, negate: bool) -> float | None:
    if number is None:
        return None
    return -float(number) if negate else abs(float(number))


def _compute(sign: str, a: Any, b: Any) -> float | None:
    if a is None or b is None or (sign == "/" and b == 0):
        return None
    return _COMPUTE[sign](a, b)


def _read(column: FactColumn, value: Any) -> Scalar:
    if value is None or value == "" or value != value:  # noqa: PLR0124  NaN differs from itself
        return None
    if column.kind is Kind.NUMBER:
        return float(value)
    return bool(value) if column.kind is Kind.FLAG else str(value)


@lru_cache(maxsize=256)
def _like(pattern: str) -> re.Pattern[str]:
    """Translate as the engine does: a backslash escapes only %, _ and itself."""
    out, index = "", 0
    while index < len(pattern):
        char = pattern[index]
        following = pattern[index + 1 : index + 2]
        if char == "\\" and following in {"%", "_", "\\"}:
            out += re.escape(following)
            index += 1
        else:
            out += {"%": ".*", "_": "."}.get(char, re.escape(char))
        index += 1
    return re.compile(out, re.DOTALL)
