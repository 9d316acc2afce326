"""Can conditions hold together? Decided without data, where it can be. Pure.

A condition is taken apart into alternatives of plain comparisons of one column with constants. If
each alternative asks one column for what no value can be, nothing can ever meet it. Whatever is
not such a comparison (arithmetic, two columns) is taken to be possible, and so is a condition with
too many alternatives: "cannot hold" is certain, "can hold" is not.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from slo.columns import OUTCOMES, FactColumn, Kind
from slo.expression import (
    All,
    AnyOf,
    Column,
    Comparison,
    Expression,
    Matches,
    Not,
    OneOf,
    Unknown,
    Value,
)
from slo.interpret import holds

MOST_ALTERNATIVES = 512

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Demand:
    """What one comparison asks of a column; `like` and `unlike` hold a pattern."""

    column: FactColumn
    sign: str  # = != < <= > >= like unlike null known
    value: str | float | bool = ""


Alternative = tuple[Demand, ...]


class _TooManyError(Exception):
    """The condition has more alternatives than are looked at."""


def can_hold(conditions: Iterable[Expression]) -> bool:
    """Say whether one request could meet all conditions; False is certain."""
    try:
        alternatives = _all([_alternatives(each, truth=True) for each in conditions])
    except _TooManyError:
        return True
    return any(_is_possible(each) for each in alternatives)


def _alternatives(  # noqa: C901, PLR0911  one case a node
    expression: Expression, *, truth: bool
) -> list[Alternative]:
    """List what makes an expression true, or false; unknown is neither."""
    match expression:
        case Value(bool() as value):
            return [()] if value is truth else []
        case Not(operand):
            return _alternatives(operand, truth=not truth)
        case All(operands) | AnyOf(operands):
            parts = [_alternatives(each, truth=truth) for each in operands]
            return _all(parts) if isinstance(expression, All) is truth else _any(parts)
        case Comparison(sign, Column(column), Value(value)):
            return [(_compared(column, sign, value, truth=truth),)]
        case Comparison(sign, Value(value), Column(column)):
            return [(_compared(column, _MIRRORED[sign], value, truth=truth),)]
        case Comparison(sign, Value(left), Value(right)):
            return [()] if holds(Comparison(sign, Value(left), Value(right)), {}) is truth else []
        case OneOf(Column(column), values):
            each: list[Alternative] = [
                (_compared(column, "=", value.value, truth=truth),) for value in values
            ]
            return each if truth else [tuple(demand for one in each for demand in one)]
        case Matches(Column(column), pattern):
            return [(Demand(column, "like" if truth else "unlike", pattern),)]
        case Unknown(Column(column)):
            return [(Demand(column, "null" if truth else "known"),)]
        case Column(column):
            return [(Demand(column, "=", truth),)]
        case _:
            return [()]


def _compared(column: FactColumn, sign: str, value: str | float | bool, *, truth: bool) -> Demand:
    return Demand(column, sign if truth else _NEGATED[sign], value)


def _all(parts: Sequence[list[Alternative]]) -> list[Alternative]:
    if math.prod(len(part) for part in parts) > MOST_ALTERNATIVES:
        raise _TooManyError
    return [tuple(demand for each in chosen for demand in each) for chosen in product(*parts)]


def _any(parts: Sequence[list[Alternative]]) -> list[Alternative]:
    found = [each for part in parts for each in part]
    if len(found) > MOST_ALTERNATIVES:
        raise _TooManyError
    return found


def _is_possible(alternative: Alternative) -> bool:
    by_column: dict[FactColumn, list[Demand]] = defaultdict(list)
    for demand in alternative:
        by_column[demand.column].append(demand)
    return all(_fits(column, demands) for column, demands in by_column.items())


def _fits(column: FactColumn, demands: Sequence[Demand]) -> bool:
    signs = {demand.sign for demand in demands}
    if "null" in signs:
        return signs == {"null"}
    if column.kind is Kind.NUMBER:
        return _number_fits(demands)
    return _value_fits(column, demands)


def _number_fits(demands: Sequence[Demand]) -> bool:
    """Look for a number, which of a request is never negative."""
    low, is_low_in, high, is_high_in = 0.0, True, math.inf, False
    for demand in demands:
        if not isinstance(demand.value, float):
            continue
        if demand.sign in {">", ">=", "="} and (demand.value, demand.sign == ">") > (
            low, not is_low_in
        ):  # fmt: skip
            low, is_low_in = demand.value, demand.sign != ">"
        if demand.sign in {"<", "<=", "="} and (-demand.value, demand.sign == "<") > (
            -high, not is_high_in
        ):  # fmt: skip
            high, is_high_in = demand.value, demand.sign != "<"
    if low > high or (low == high and not (is_low_in and is_high_in)):
        return False
    refused = {demand.value for demand in demands if demand.sign == "!="}
    return low != high or low not in refused


def _value_fits(column: FactColumn, demands: Sequence[Demand]) -> bool:
    """Look for a text, or a truth, among those that are named."""
    domain: set[str | float | bool] | None = None
    if column.name == "outcome":
        domain = set(OUTCOMES)
    elif column.kind is Kind.FLAG:
        domain = {True, False}
    named = {demand.value for demand in demands if demand.sign == "="}
    if named:
        domain = named if domain is None else domain & named
    if domain is None:
        return True  # any text but some: there are others
    return any(all(_meets(column, value, demand) for demand in demands) for value in domain)


def _meets(column: FactColumn, value: str | float | bool, demand: Demand) -> bool:
    match demand.sign:
        case "like" | "unlike":
            matched = holds(Matches(Column(column), str(demand.value)), {column.name: value})
            return matched is (demand.sign == "like")
        case "known":
            return True
        case sign:
            comparison = Comparison(sign, Column(column), Value(demand.value))  # type: ignore[arg-type]
            return holds(comparison, {column.name: value})
