"""As much PromQL as it takes to see whether a query counts a counter. Pure.

A query of the plain form `sum by (labels) (rate(selector[window]))` is a counter, and counting it
from its samples is exact: no extrapolation, no average of ratios. Everything else stays a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from base.errors import BadInput
from slo.imports.promql_tokens import (
    CLOSING,
    COMPARE,
    PAIRS,
    SECONDS,
    WINDOW,
    WORDS,
    closing,
    is_name,
    is_text,
    tidy,
    tokens,
    write,
)
from slo.prometheus.selector import parse_selector

__all__ = [
    "SECONDS", "WINDOW", "Plain", "by_of", "counts", "difference_of", "plain", "ratio_of",
    "selector_of", "summed", "tidy", "tokens", "uses_range", "uses_rate", "write",
]  # fmt: skip

_COUNTING = frozenset({"rate", "increase"})
_LINEAR = frozenset({"sum", "by", "or", "on", "rate", "increase", "vector"})
_PUNCTUATION = frozenset({"(", ")", "[", "]", ",", "+", "-", ":", WINDOW})


@dataclass(frozen=True, slots=True)
class Plain:
    """`sum by (by) (function(selector[range]))`."""

    selector: str
    by: tuple[str, ...]
    function: str
    range: str


def selector_of(query: str) -> str | None:
    """Return a bare selector of one metric such as `up{job="api"}`, None if it is more."""
    return _selector(_bare(tokens(query)))


def plain(query: str) -> Plain | None:
    """Recognise the plain form; `or vector(0)` behind it is left out, as none is none anyway."""
    summed_up = _sum(_without_vector_zero(_bare(tokens(query))))
    if summed_up is None:
        return None
    by, inner = summed_up
    if len(inner) < 6 or inner[0] not in _COUNTING or closing(inner, 1) != len(inner) - 1:
        return None
    argument = inner[2:-1]
    if argument[-1] != "]" or "[" not in argument:
        return None
    bracket = len(argument) - 1 - list(reversed(argument)).index("[")
    selector, within = _selector(argument[:bracket]), "".join(argument[bracket + 1 : -1])
    return None if selector is None or ":" in within else Plain(selector, by, inner[0], within)


def summed(query: str) -> tuple[str, tuple[str, ...]] | None:
    """Recognise `selector` and `sum by (labels) (selector)`, which count only as a counter."""
    found = _without_vector_zero(_bare(tokens(query)))
    selector = _selector(found)
    if selector is not None:
        return selector, ()
    summed_up = _sum(found)
    inner = None if summed_up is None else _selector(summed_up[1])
    return None if summed_up is None or inner is None else (inner, summed_up[0])


def ratio_of(query: str) -> tuple[str, str] | None:
    """Cut `a / b` at its only top-level division."""
    return _cut(_bare(tokens(query)), "/")


def difference_of(query: str) -> tuple[str, str] | None:
    """Cut `a - b` at its only top-level subtraction."""
    return _cut(_bare(tokens(query)), "-")


def uses_range(query: str) -> bool:
    return f"[{WINDOW}]" in query.replace(" ", "")


def uses_rate(query: str) -> bool:
    return not {"rate", "irate", "deriv"}.isdisjoint(tokens(query))


def counts(query: str) -> str | None:
    """Turn rates over the window into counts of it; None where that would change the meaning."""
    found = tokens(query)
    if not _is_linear(found):
        return None
    return write(["increase" if word == "rate" else word for word in found])


def by_of(query: str) -> tuple[str, ...]:
    """Name the labels that the aggregations keep: all of them the same, else none.

    Without `le`, which is a histogram's own and is gone when its quantile is taken.
    """
    found = tokens(query)
    lists = [
        tuple(label for label in found[at + 2 : found.index(")", at)] if label not in {",", "le"})
        for at, word in enumerate(found)
        if word == "by" and found[at + 1 : at + 2] == ["("]
    ]
    return lists[0] if lists and all(set(each) == set(lists[0]) for each in lists) else ()


def _bare(found: Sequence[str]) -> Sequence[str]:
    """Take off brackets around the whole."""
    while len(found) > 2 and found[0] == "(" and closing(found, 0) == len(found) - 1:
        found = found[1:-1]
    return found


def _selector(found: Sequence[str]) -> str | None:
    try:
        return str(parse_selector("".join(found)))
    except BadInput:
        return None  # several metrics, none by name, or no selector at all


def _sum(found: Sequence[str]) -> tuple[tuple[str, ...], Sequence[str]] | None:
    """Recognise `sum by (labels) (body)`, the labels before or after; return both."""
    if len(found) < 2 or found[0] != "sum":
        return None
    by, body = _by(found[1:])
    if not body or body[0] != "(":
        return None
    end = closing(body, 0)
    rest = body[end + 1 :]
    if rest and not by:
        by, rest = _by(rest) if rest[0] == "by" else ((), rest)
    return None if rest else (by, _bare(body[1:end]))


def _by(found: Sequence[str]) -> tuple[tuple[str, ...], Sequence[str]]:
    if found[:2] != ["by", "("]:
        return (), found
    end = closing(found, 1)
    return tuple(label for label in found[2:end] if label != ","), found[end + 1 :]


def _without_vector_zero(found: Sequence[str]) -> Sequence[str]:
    if list(found[-4:]) != ["vector", "(", "0", ")"]:
        return found
    head = list(found[:-4])
    if head[-3:] == ["on", "(", ")"]:
        head = head[:-3]
    return _bare(head[:-1]) if head and head[-1].lower() == "or" else found


def _cut(found: Sequence[str], operator: str) -> tuple[str, str] | None:
    depth = 0
    places: list[int] = []
    for at, word in enumerate(found):
        depth += (word in PAIRS) - (word in CLOSING)
        if depth or not at or word in CLOSING:
            continue
        if word == operator:
            places.append(at)
        elif word in "+-*/%^" or word in COMPARE or word.lower() in WORDS - {"by", "without"}:
            return None
    if len(places) != 1:
        return None
    return write(found[: places[0]]), write(found[places[0] + 1 :])


def _is_linear(found: Sequence[str]) -> bool:
    """Say whether twice the rates give twice the result: sums and differences of rates."""
    if len(_COUNTING & set(found)) != 1:
        return False
    braces = 0
    for at, word in enumerate(found):
        braces += (word == "{") - (word == "}")
        if not braces and word != "}" and not _scales(found, at):
            return False
    return True


def _scales(found: Sequence[str], at: int) -> bool:
    """Say whether the token at `at` lets a sum of rates stay one."""
    word = found[at]
    if word in _PUNCTUATION or is_text(word) or word.lower() == "or":
        return True
    if found[at + 1 : at + 2] == ["("] and word.lower() in _LINEAR:
        return True
    if word == "0":
        return list(found[at - 2 : at]) == ["vector", "("]
    return is_name(word) and (_is_measured(found, at) or _is_label(found, at))


def _is_measured(found: Sequence[str], at: int) -> bool:
    """Say whether the name at `at` is a counter inside rate(...) over the window."""
    end = at + 1
    if found[end : end + 1] == ["{"]:
        end = closing(found, end) + 1
    is_windowed = list(found[end : end + 3]) == ["[", WINDOW, "]"]
    return is_windowed and at >= 2 and found[at - 1] == "(" and found[at - 2] in _COUNTING


def _is_label(found: Sequence[str], at: int) -> bool:
    before = list(found[:at])
    opened = len(before) - 1 - before[::-1].index("(") if "(" in before else -1
    return opened > 0 and found[opened - 1] in {"by", "on"}
