"""Expression tree -> the text that reads back as the same tree. Pure.

Used wherever a document is shown, compared or written anew: never by the engine (`slo.compile`).
"""

from __future__ import annotations

from slo.compile import literal
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

# How tightly each kind holds together: what is looser than its place asks for gets brackets.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _ATOM = range(7)


def write(expression: Expression) -> str:
    """Write an expression as people do, with no more brackets than it needs."""
    return _write(expression, _OR)


def _write(expression: Expression, least: int) -> str:
    text, held = _text(expression)
    return text if held >= least else f"({text})"


def _text(  # noqa: C901, PLR0911, PLR0912  one case a node
    expression: Expression,
) -> tuple[str, int]:
    match expression:
        case Column(column):
            return column.name, _ATOM
        case Value(value):
            return _value(value), _ATOM
        case Absolute(operand):
            return f"abs({write(operand)})", _ATOM
        case FirstKnown(operands):
            return f"coalesce({', '.join(map(write, operands))})", _ATOM
        case Negative(operand):
            return f"-({write(operand)})", _ATOM
        case Arithmetic(sign, left, right):
            held = _SUM if sign in "+-" else _PRODUCT
            return f"{_write(left, held)} {sign} {_write(right, held + 1)}", held
        case Comparison(sign, left, right):
            return f"{_write(left, _SUM)} {sign} {_write(right, _SUM)}", _COMPARE
        case OneOf(operand, values):
            listed = ", ".join(_value(value.value) for value in values)
            return f"{_write(operand, _SUM)} in ({listed})", _COMPARE
        case Matches(operand, pattern):
            return f"{_write(operand, _SUM)} like {_value(pattern)}", _COMPARE
        case Unknown(operand):
            return f"{_write(operand, _SUM)} is null", _COMPARE
        case Not(Unknown(operand)):
            return f"{_write(operand, _SUM)} is not null", _COMPARE
        case Not(operand):
            return f"not ({write(operand)})", _NOT
        case All(operands):
            return " and ".join(_write(operand, _NOT) for operand in operands), _AND
        case AnyOf(operands):
            return " or ".join(_write(operand, _AND) for operand in operands), _OR


def _value(value: str | float | bool) -> str:
    if isinstance(value, (bool, str)):
        return literal(value)
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
