"""A second opinion: judge and count facts in plain Python, one request at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from slo.interpret import evaluate, holds
from slo.model import Slo
from tests.slo.made_facts import nanoseconds


@dataclass
class Tally:
    good: int = 0
    bad: int = 0
    excluded: int = 0
    bad_reasons: Counter[str] = field(default_factory=Counter)


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
    for each in newest(facts):
        if not start < each["start"] <= end:
            continue
        if slo.eligible is not None and not holds(slo.eligible, each):
            continue
        group = tuple(each.get(column, "") for column in slo.group_by)
        _judge(slo, each, tallies.setdefault(group, Tally()))
    return tallies


def _judge(slo: Slo, each: Mapping[str, Any], tally: Tally) -> None:
    if each["outcome"] == "excluded":
        tally.excluded += 1
    elif all(holds(clause.expression, each) for clause in slo.good):
        tally.good += 1
    else:
        tally.bad += 1
        tally.bad_reasons[_reason(slo, each)] += 1


def _reason(slo: Slo, each: Mapping[str, Any]) -> str:
    if each["outcome"] == "bad":
        return str(each.get("outcome_reason") or "bad")
    for clause in slo.good:
        truth = evaluate(clause.expression, each)
        if truth is not True:
            return clause.name if truth is False else f"{clause.name} (unknown)"
    raise AssertionError("a good request has no reason")
