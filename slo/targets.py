"""What an SLO asks of the machinery in front of it: latency limits for schedulers and autoscalers.

One definition pages people, sets the headers that a scheduler reads (`x-llm-d-slo-ttft-ms`,
`x-llm-d-slo-tpot-ms` of llm-d and the Gateway API inference extension) and gives an autoscaler its
targets (TTFT and ITL, as Dynamo's planner takes them). Changed in one place, changed in all.

A limit may grow with the prompt: `ttft_ms <= 800 + 0.12 * (prompt_tokens - cached_tokens)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from slo.expression import (
    All,
    AnyOf,
    Arithmetic,
    Column,
    Comparison,
    Expression,
    Negative,
    OneOf,
    Unknown,
    Value,
)
from slo.model import Slo

HEADERS: Mapping[str, str] = {
    "ttft_ms": "x-llm-d-slo-ttft-ms",
    "tpot_ms": "x-llm-d-slo-tpot-ms",
}
METRICS = ("ttft_ms", "tpot_ms", "duration_ms", "queue_ms")

_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
_AT_MOST = {"<", "<="}
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True, slots=True)
class Limit:
    """Milliseconds at most: `base_ms`, and as much for each token of a kind."""

    base_ms: float
    per_token_ms: Mapping[str, float] = field(default_factory=dict)

    def at(self, tokens: Mapping[str, int]) -> float | None:
        """Give the limit of one request in ms; None where a count it needs is unknown."""
        if any(kind not in tokens for kind in self.per_token_ms):
            return None
        return self.base_ms + sum(each * tokens[kind] for kind, each in self.per_token_ms.items())


@dataclass(frozen=True, slots=True)
class Targets:
    """The limits of one SLO, and which requests they are for.

    `match` holds the columns that `eligible` compares with texts. Where it asks for more than that,
    `is_exact` is false: the limits hold for some of the matching requests. `overrides` are other
    objectives, by the requests they are for; the first that matches holds.
    """

    slo: str
    objective: float
    match: Mapping[str, tuple[str, ...]]
    is_exact: bool
    limits: Mapping[str, Limit]
    overrides: tuple[tuple[Mapping[str, tuple[str, ...]], float], ...] = ()

    def headers(self, tokens: Mapping[str, int]) -> dict[str, str]:
        """Write the headers of one request, whole milliseconds."""
        found = (
            (HEADERS[name], limit.at(tokens))
            for name, limit in self.limits.items()
            if name in HEADERS
        )
        return {name: str(round(value)) for name, value in found if value is not None and value > 0}


def targets_of(slo: Slo) -> Targets:
    """Read the limits in the clauses of `good`; of two for a metric, the one of lower base.

    A composite has none: its components ask for their own.
    """
    limits: dict[str, Limit] = {}
    for clause in slo.good if slo.composite is None else ():
        for part in _parts(clause.expression):
            for metric, limit in _limit(part):
                known = limits.get(metric)
                if known is None or limit.base_ms < known.base_ms:
                    limits[metric] = limit
    match: dict[str, tuple[str, ...]] = {}
    is_exact = True
    for part in _parts(slo.eligible) if slo.eligible is not None else ():
        found = _match(part)
        if found is None or found[0] in match:
            is_exact = False
        else:
            match[found[0]] = found[1]
    overrides = tuple((dict(each.match), each.objective) for each in slo.overrides)
    return Targets(slo.name, slo.objective, match, is_exact, limits, overrides)


def _parts(expression: Expression) -> Iterator[Expression]:
    """Take a conjunction apart."""
    if isinstance(expression, All):
        for operand in expression.operands:
            yield from _parts(operand)
    else:
        yield expression


def _limit(part: Expression) -> Iterator[tuple[str, Limit]]:
    """Read `metric <= limit`, either way round, also as `metric is null or metric <= limit`."""
    match part:
        case AnyOf((Unknown(Column(one)), Comparison() as inner)) | AnyOf(
            (Comparison() as inner, Unknown(Column(one)))
        ):
            yield from ((name, limit) for name, limit in _limit(inner) if name == one.name)
        case Comparison(sign, Column(column), bound) if sign in _AT_MOST and column.name in METRICS:
            if (limit := _linear(bound)) is not None:
                yield column.name, limit
        case Comparison(sign, bound, Column(column)) if (
            _TURNED.get(sign) in _AT_MOST and column.name in METRICS
        ):
            if (limit := _linear(bound)) is not None:
                yield column.name, limit


def _linear(expression: Expression) -> Limit | None:
    """Write a bound as a + b * tokens + ...; None where it is something else."""
    terms = _terms(expression)
    if terms is None:
        return None
    return Limit(terms.pop("", 0.0), {kind: value for kind, value in terms.items() if value})


def _terms(expression: Expression) -> dict[str, float] | None:
    match expression:
        case Value(bool() | str()):
            return None
        case Value(number):
            return {"": float(number)}
        case Column(column):
            return {column.name: 1.0} if column.name in _TOKENS else None
        case Negative(operand):
            return _scaled(_terms(operand), -1.0)
        case Arithmetic(sign, left, right):
            return _combined(sign, _terms(left), _terms(right))
    return None


def _combined(
    sign: str, left: dict[str, float] | None, right: dict[str, float] | None
) -> dict[str, float] | None:
    if left is None or right is None:
        return None
    if sign in "+-":
        other = right if sign == "+" else _scaled(right, -1.0) or {}
        return {name: left.get(name, 0.0) + other.get(name, 0.0) for name in left | other}
    if sign == "*" and set(left) <= {""}:
        return _scaled(right, left.get("", 0.0))
    if set(right) <= {""} and (sign == "*" or right.get("")):
        factor = right.get("", 0.0)
        return _scaled(left, factor if sign == "*" else 1 / factor)
    return None


def _scaled(terms: dict[str, float] | None, factor: float) -> dict[str, float] | None:
    return None if terms is None else {name: value * factor for name, value in terms.items()}


def _match(part: Expression) -> tuple[str, tuple[str, ...]] | None:
    """Read `column = 'text'` and `column in ('text', ...)`."""
    match part:
        case Comparison("=", Column(column), Value(str(text))):
            return column.name, (text,)
        case Comparison("=", Value(str(text)), Column(column)):
            return column.name, (text,)
        case OneOf(Column(column), values) if all(isinstance(each.value, str) for each in values):
            return column.name, tuple(str(each.value) for each in values)
    return None
