"""The limits that benchmark tools know (TTFT, TPOT, end to end), and what an SLO says of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from base.errors import BadInput
from slo.expression import All, Column, Comparison, Expression, Value
from slo.model import Slo
from slo.parse import Clause, parse_filter

NAMES = {
    "ttft": "ttft", "time_to_first_token": "ttft",
    "tpot": "tpot", "inter_token_latency": "tpot", "itl": "tpot", "tbt": "tpot",
    "e2el": "e2el", "e2e": "e2el", "request_latency": "e2el",
}  # fmt: skip
"""As vLLM, AIPerf and etalon write them."""

_OF_COLUMNS = {"ttft_ms": "ttft", "tpot_ms": "tpot", "duration_ms": "e2el"}
# An answer of one token has no TPOT: nothing is asked of it. Facts without one may have the rest.
_CLAUSES = {
    "ttft": "ttft_ms <= {0}",
    "tpot": "completion_tokens <= 1 or "
    "coalesce(tpot_ms, (duration_ms - ttft_ms) / (completion_tokens - 1)) <= {0}",
    "e2el": "duration_ms <= {0}",
}
_TITLES = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "end to end"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Milliseconds, None for what is not limited."""

    ttft: float | None = None
    tpot: float | None = None
    e2el: float | None = None

    def __str__(self) -> str:
        return " ".join(f"{name}:{value:g}" for name, value in self.items())

    def items(self) -> Iterator[tuple[str, float]]:
        for name in ("ttft", "tpot", "e2el"):
            value = getattr(self, name)
            if value is not None:
                yield name, value


def parse_limits(text: str) -> Limits:
    """Read `ttft:2000 tpot:100 e2el:10000`, as the tools take it."""
    found: dict[str, float] = {}
    for pair in text.replace(",", " ").split():
        written, mark, value = pair.partition(":")
        name = NAMES.get(written.lower())
        if not mark or name is None:
            raise BadInput(f"limit {pair!r}: write NAME:MILLISECONDS with {', '.join(NAMES)}")
        if name in found:
            raise BadInput(f"limit {pair!r}: {name} is limited twice")
        try:
            number = float(value)
        except ValueError as error:
            raise BadInput(f"limit {pair!r}: {value!r} is not a number") from error
        if not (math.isfinite(number) and number > 0):
            raise BadInput(f"limit {pair!r}: milliseconds above 0 are needed")
        found[name] = number
    if not found:
        raise BadInput("no limit is given: write for example 'ttft:2000 tpot:100 e2el:10000'")
    return Limits(**found)


def slo_of(limits: Limits) -> Slo:
    """Make an SLO that asks the same of a request, and that it did not fail."""
    clauses = [Clause("answered", parse_filter("outcome = 'good'"))]
    clauses += [
        Clause(_TITLES[name], parse_filter(_CLAUSES[name].format(repr(value))))
        for name, value in limits.items()
    ]
    return Slo("goodput", 0.99, timedelta(days=30), tuple(clauses), ())


def clause_texts(limits: Limits) -> dict[str, str]:
    """Write what `slo_of` asks, as a document would."""
    return {"answered": "outcome = 'good'"} | {
        _TITLES[name]: _CLAUSES[name].format(f"{value:g}") for name, value in limits.items()
    }


def limits_of(slo: Slo) -> tuple[Limits, tuple[str, ...]]:
    """Find the fixed limits among an SLO's clauses, and the clauses that a tool has no word for."""
    found: dict[str, float] = {}
    beyond: list[str] = []
    for clause in slo.good:
        for part in _conjuncts(clause.expression):
            limit = _limit(part)
            if limit is not None:
                name, value = limit
                found[name] = min(value, found.get(name, math.inf))
            elif not _asks_outcome(part) and clause.name not in beyond:
                beyond.append(clause.name)
    if not found:
        raise BadInput(
            f"slo {slo.name!r} sets no fixed limit such as ttft_ms <= 2000, tpot_ms <= 100 or "
            "duration_ms <= 10000, which is all that benchmark tools know: give --limits"
        )
    return Limits(**found), tuple(beyond)


def _conjuncts(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, All):
        for operand in expression.operands:
            yield from _conjuncts(operand)
    else:
        yield expression


def _limit(part: Expression) -> tuple[str, float] | None:
    match part:
        case Comparison("<=" | "<", Column(column), Value(float() as value)):
            pass
        case Comparison(">=" | ">", Value(float() as value), Column(column)):
            pass
        case _:
            return None
    name = _OF_COLUMNS.get(column.name)
    return None if name is None or value <= 0 else (name, value)


def _asks_outcome(part: Expression) -> bool:
    match part:
        case Comparison("=", Column(column), Value("good")):
            return column.name == "outcome"
        case _:
            return False
