"""A second opinion: judge and count facts in plain Python, one request at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from slo.composite import Kind, Part
from slo.interpret import evaluate, holds
from slo.model import Slo
from tests.slo.made_facts import nanoseconds


@dataclass
class Tally:
    """Good, bad and excluded in the SLO's unit; `requests` and what follows are the requests."""

    good: int = 0
    bad: int = 0
    excluded: int = 0
    bad_reasons: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    bad_requests: int = 0
    heaviest: int = 0
    excluded_requests: int = 0
    unweighed: int = 0
    squares: int = 0
    run: int = 0


def newest(facts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Keep the last version of every request, as FINAL does."""
    last: dict[str, Mapping[str, Any]] = {}
    for each in facts:
        if each["request_id"] not in last or each["version"] >= last[each["request_id"]]["version"]:
            last[each["request_id"]] = each
    return [each for each in last.values() if not each["deleted"]]


def recount(
    slo: Slo, facts: Iterable[Mapping[str, Any]], now: datetime, length: timedelta
) -> dict[tuple[str, ...], Tally]:
    end = nanoseconds(now)
    start = end - round(length / timedelta(microseconds=1)) * 1000
    tallies: dict[tuple[str, ...], Tally] = {}
    # A run is counted in the order of starts; of two at once one that is not all bad is the later.
    inside = [each for each in newest(facts) if start < each["start"] <= end]
    for each in sorted(inside, key=lambda row: (row["start"], not _is_all_bad(slo, row))):
        if _asked(slo, each):
            group = tuple(each.get(column, "") for column in slo.group_by)
            judge(slo, each, tallies.setdefault(group, Tally()))
    return tallies


def _asked(slo: Slo, each: Mapping[str, Any]) -> list[Part]:
    return [part for part in slo.questions if part.eligible is None or holds(part.eligible, each)]


def _is_good(part: Part, each: Mapping[str, Any]) -> bool:
    return all(holds(clause.expression, each) for clause in part.good)


def _is_all_bad(slo: Slo, each: Mapping[str, Any]) -> bool:
    return not any(_is_good(part, each) for part in _asked(slo, each))


def judge(slo: Slo, each: Mapping[str, Any], tally: Tally) -> None:
    """Add a request that is asked about."""
    asked = _asked(slo, each)
    weights = {part.name: _weight(part, each) for part in asked}
    known = {name: weight or 0 for name, weight in weights.items()}
    if each["outcome"] == "excluded":
        tally.excluded += sum(known.values())
        tally.excluded_requests += 1
        return
    bad = [part for part in asked if not _is_good(part, each)]
    tally.requests += 1
    tally.bad_requests += bool(bad)
    tally.unweighed += None in weights.values()
    tally.squares += sum(known.values()) ** 2
    tally.heaviest = max(tally.heaviest, sum(known.values()))
    tally.run = tally.run + 1 if len(bad) == len(asked) else 0
    for part in asked:
        if part not in bad:
            tally.good += known[part.name]
            continue
        tally.bad += known[part.name]
        if known[part.name]:
            tally.bad_reasons[_reason(slo, part, each)] += known[part.name]


def _weight(part: Part, each: Mapping[str, Any]) -> int | None:
    if part.weight is None:
        return part.factor
    found = evaluate(part.weight.by, each)
    if found is None:
        return None
    counted = float(found) * part.weight.unit.scale
    return round(counted) * part.factor if 0 <= counted <= 1e9 else None


def _reason(slo: Slo, part: Part, each: Mapping[str, Any]) -> str:
    if each["outcome"] == "bad":
        return str(each.get("outcome_reason") or "bad")
    is_sum = slo.composite is not None and slo.composite.kind is Kind.SUM
    for clause in part.clauses if is_sum else slo.good:
        truth = evaluate(clause.expression, each)
        if truth is not True:
            return clause.name if truth is False else f"{clause.name} (unknown)"
    raise AssertionError("a good request has no reason")
