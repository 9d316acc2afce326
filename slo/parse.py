"""Filter text -> expression tree: the ClickHouse dialect, cut down to what cannot do harm.

sqlglot only tokenises and builds its tree; every node is matched against the list below and
everything else (functions, casts, subqueries, placeholders, several statements) is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from base.errors import BadInput
from slo.columns import COLUMNS, OUTCOMES, Kind
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
    kind_of,
)

MAX_LENGTH = 4000
MAX_DEPTH = 60

_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/",
}  # fmt: skip
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition of a conjunction: bad requests are counted by the first that fails."""

    name: str
    expression: Expression


def parse_filter(text: str) -> Expression:
    """Read a condition over request facts; BadInput says what is wrong with it."""
    return _condition(_tree(text), 0)


def parse_clauses(text: str) -> tuple[Clause, ...]:
    """Read a condition as its top-level `and` clauses, each named by its own text."""
    return tuple(Clause(_text_of(node), _condition(node, 0)) for node in _conjuncts(_tree(text)))


def parse_number(text: str) -> Expression:
    """Read an expression that yields a number, such as `ttft_ms` or `prompt_tokens / 2`."""
    return _numeric(_tree(text), 0)


def _tree(text: str) -> exp.Expr:
    if len(text) > MAX_LENGTH:
        raise BadInput(f"the expression has {len(text)} characters: at most {MAX_LENGTH} are read")
    if not text.strip():
        raise BadInput("the expression is empty: write a condition such as outcome = 'good'")
    try:
        trees = sqlglot.parse(text, dialect="clickhouse")
    except (SqlglotError, RecursionError, ValueError) as error:
        first = str(error).split("\n", 1)[0].removesuffix(".")
        raise BadInput(f"{text!r} is not a condition: {first}") from error
    if len(trees) != 1 or trees[0] is None:
        raise BadInput(f"{text!r} is {len(trees)} statements: write one condition")
    return trees[0]


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        head = waiting.pop()
        inner = head.unnest()
        if isinstance(inner, exp.And):
            waiting += [inner.expression, inner.this]
        else:
            found.append(inner)
    return found


def _text_of(node: exp.Expr) -> str:
    return node.sql(dialect="clickhouse", comments=False)


def _condition(node: exp.Expr, depth: int) -> Expression:
    found = _build(node, depth)
    if kind_of(found) is not Kind.FLAG:
        raise BadInput(f"{_text_of(node)!r} is a {kind_of(found)}, not a condition: compare it")
    return found


def _numeric(node: exp.Expr, depth: int) -> Expression:
    found = _build(node, depth)
    if kind_of(found) is not Kind.NUMBER:
        raise BadInput(f"{_text_of(node)!r} is a {kind_of(found)} where a number is needed")
    return found


def _build(node: exp.Expr, depth: int) -> Expression:
    if depth > MAX_DEPTH:
        raise BadInput(f"the expression is nested deeper than {MAX_DEPTH}")
    builder = _BUILDERS.get(type(node))
    if builder is None:
        raise BadInput(
            f"{_text_of(node)!r} is not allowed in a filter: use comparisons, and, or, not, in, "
            "between, like, is null, arithmetic, abs and coalesce over request facts"
        )
    return builder(node, depth + 1)


def _only(node: exp.Expr, *allowed: str) -> None:
    extra = [name for name, value in node.args.items() if value and name not in allowed]
    if extra:
        raise BadInput(f"{_text_of(node)!r} uses {extra[0]!r}, which a filter does not allow")


def _column(node: exp.Expr, _depth: int) -> Expression:
    _only(node, "this")
    column = COLUMNS.get(node.name)
    if column is None:
        raise BadInput(
            f"{node.name!r} is not a column of request facts: use one of {', '.join(COLUMNS)}"
        )
    return Column(column)


def _literal(node: exp.Expr, _depth: int) -> Expression:
    if node.args.get("is_string"):
        return Value(str(node.this))
    try:
        number = float(node.this)
    except ValueError as error:
        raise BadInput(f"{node.this!r} is not a number") from error
    if not math.isfinite(number):
        raise BadInput(f"{node.this!r} is too large")
    return Value(number)


def _boolean(node: exp.Expr, _depth: int) -> Expression:
    return Value(bool(node.this))


def _paren(node: exp.Expr, depth: int) -> Expression:
    _only(node, "this")
    return _build(node.this, depth)


def _arithmetic(node: exp.Expr, depth: int) -> Expression:
    _only(node, "this", "expression", "typed", "safe")
    operator = _ARITHMETIC[type(node)]
    return Arithmetic(operator, _numeric(node.this, depth), _numeric(node.expression, depth))  # type: ignore[arg-type]


def _negative(node: exp.Expr, depth: int) -> Expression:
    return Negative(_numeric(node.this, depth))


def _absolute(node: exp.Expr, depth: int) -> Expression:
    _only(node, "this")
    return Absolute(_numeric(node.this, depth))


def _first_known(node: exp.Expr, depth: int) -> Expression:
    _only(node, "this", "expressions")
    operands = tuple(_build(part, depth) for part in (node.this, *node.expressions))
    _same_kind(node, operands)
    return FirstKnown(operands)


def _comparison(node: exp.Expr, depth: int) -> Expression:
    _only(node, "this", "expression")
    if isinstance(node.this, exp.Null) or isinstance(node.expression, exp.Null):
        raise BadInput(f"{_text_of(node)!r} is never true: write `is null` or `is not null`")
    left, right = _build(node.this, depth), _build(node.expression, depth)
    _same_kind(node, (left, right))
    operator = _COMPARISONS[type(node)]
    if kind_of(left) is Kind.FLAG and operator not in {"=", "!="}:
        raise BadInput(f"{_text_of(node)!r} orders conditions: only = and != compare them")
    for side, other in ((left, right), (right, left)):
        _known_outcomes(side, (other,))
    return Comparison(operator, left, right)  # type: ignore[arg-type]


def _between(node: exp.Expr, depth: int) -> Expression:
    _only(node, "this", "low", "high")
    operand = _build(node.this, depth)
    low, high = _build(node.args["low"], depth), _build(node.args["high"], depth)
    _same_kind(node, (operand, low, high))
    return All((Comparison(">=", operand, low), Comparison("<=", operand, high)))


def _one_of(node: exp.Expr, depth: int) -> Expression:
    _only(node, "this", "expressions")
    values = tuple(_build(part, depth) for part in node.expressions)
    constants = tuple(_constant(node, value) for value in values)
    operand = _build(node.this, depth)
    _same_kind(node, (operand, *constants))
    _known_outcomes(operand, constants)
    return OneOf(operand, constants)


def _constant(node: exp.Expr, value: Expression) -> Value:
    match value:
        case Value():
            return value
        case Negative(Value(float() as number)):
            return Value(-number)
        case _:
            raise BadInput(f"{_text_of(node)!r}: the list of `in` holds constants only")


def _matches(node: exp.Expr, depth: int) -> Expression:
    _only(node, "this", "expression", "negate")
    operand = _build(node.this, depth)
    pattern = node.expression
    if kind_of(operand) is not Kind.TEXT or not (
        isinstance(pattern, exp.Literal) and pattern.is_string
    ):
        raise BadInput(f"{_text_of(node)!r}: like compares a text column with a quoted pattern")
    text = str(pattern.this)
    if (len(text) - len(text.rstrip("\\"))) % 2:
        raise BadInput(f"the pattern {text!r} ends in a lone backslash")
    found = Matches(operand, text)
    return Not(found) if node.args.get("negate") else found


def _is(node: exp.Expr, depth: int) -> Expression:
    _only(node, "this", "expression")
    if not isinstance(node.expression, exp.Null):
        raise BadInput(f"{_text_of(node)!r}: `is` is followed by null or not null")
    return Unknown(_build(node.this, depth))


def _not(node: exp.Expr, depth: int) -> Expression:
    return Not(_condition(node.this, depth))


def _all(node: exp.Expr, depth: int) -> Expression:
    return All(tuple(_condition(part, depth) for part in _flat(node, exp.And)))


def _any(node: exp.Expr, depth: int) -> Expression:
    return AnyOf(tuple(_condition(part, depth) for part in _flat(node, exp.Or)))


def _flat(node: exp.Expr, connector: type[exp.Expr]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    waiting: list[exp.Expr] = [node]
    while waiting:
        head = waiting.pop()
        if isinstance(head, connector):
            waiting += [head.args["expression"], head.this]
        else:
            found.append(head)
    return found


def _same_kind(node: exp.Expr, operands: Sequence[Expression]) -> None:
    kinds = [kind_of(operand) for operand in operands]
    for kind in kinds[1:]:
        if kind is not kinds[0]:
            raise BadInput(f"{_text_of(node)!r} compares a {kinds[0]} with a {kind}")


def _known_outcomes(side: Expression, others: Sequence[Expression]) -> None:
    if not (isinstance(side, Column) and side.column.name == "outcome"):
        return
    for other in others:
        if isinstance(other, Value) and other.value not in OUTCOMES:
            raise BadInput(f"outcome is never {other.value!r}: it is good, bad or excluded")


_BUILDERS: dict[type[exp.Expr], Callable[[exp.Expr, int], Expression]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Paren: _paren,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_COMPARISONS, _comparison),
    exp.Neg: _negative,
    exp.Abs: _absolute,
    exp.Coalesce: _first_known,
    exp.Between: _between,
    exp.In: _one_of,
    exp.Like: _matches,
    exp.Is: _is,
    exp.Not: _not,
    exp.And: _all,
    exp.Or: _any,
}
