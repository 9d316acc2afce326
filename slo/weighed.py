"""Judged requests that do not count the same, as SQL: sums of weights, and what is behind them.

An SLO asks one question of a request, or one for each component of a sum. An answer is an event
`(judgement, is_weighed, weight)`. Good, bad and excluded are sums of weights of events; beside them
stand the requests themselves, which is what a guard against bad luck must know. A request is bad if
an answer is bad; it is a failure in a run if all answers are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slo.classify import (
    EXCLUDED,
    FIRST_BAD,
    GOOD,
    INELIGIBLE,
    group_sql,
    judgement_sql,
    reason_sql,
)
from slo.model import Slo
from slo.weight import weight_sql

SUMMED = ("requests", "bad_requests", "excluded_requests", "unweighed", "squares")
"""Columns of count rows that add up: judged requests, the bad ones, the excluded ones, those of the
judged ones that have no known weight, and the squares of the judged ones' weights."""
HEAVIEST = "heaviest"
"""The column whose greatest counts: the weight of the heaviest judged request."""
COLUMNS = (*SUMMED, HEAVIEST)
"""What the count rows of weighted SLOs have, and nobody reads of the others."""


def alike(slos: Sequence[Slo]) -> Iterator[list[Slo]]:
    """Part SLOs into those that count requests and those that weigh them: each is counted apart."""
    for is_weighted in (False, True):
        if found := [slo for slo in slos if slo.is_weighted is is_weighted]:
            yield found


def requests_sql(slos: Sequence[Slo], facts: str, condition: str, also: Sequence[str] = ()) -> str:
    """Write a SELECT of every request that is asked about, a row for each SLO that asks.

    Its columns are number (of the SLO, from 1), group, at (nanoseconds), good, bad, excluded,
    bad_reasons, excluded_reasons, tail (1: every answer is bad), those of `COLUMNS`, and `also`.
    """
    more = "".join(f", {name}" for name in also)
    return f"""
SELECT number, group, at, {_sum(f"e.1 = {GOOD}")} AS good, {_sum(f"e.1 >= {FIRST_BAD}")} AS bad,
  {_sum(f"e.1 = {EXCLUDED}")} AS excluded, {_reasons(slos, f"e.1 >= {FIRST_BAD}")} AS bad_reasons,
  {_reasons(slos, f"e.1 = {EXCLUDED}")} AS excluded_reasons,
  toUInt64(requests = 1 AND NOT arrayExists(e -> e.1 = {GOOD}, events)) AS tail,
  toUInt64(arrayExists(e -> e.1 != {EXCLUDED}, events)) AS requests,
  toUInt64(arrayExists(e -> e.1 >= {FIRST_BAD}, events)) AS bad_requests,
  toUInt64(1 - requests) AS excluded_requests,
  toUInt64(requests = 1 AND arrayExists(e -> e.2 = 0, events)) AS unweighed,
  good + bad AS heaviest, toFloat64(heaviest) * toFloat64(heaviest) AS squares{more}
FROM (
  SELECT at, outcome, outcome_reason{more}, j.1 AS number, j.2 AS group,
    arrayFilter(e -> e.1 != {INELIGIBLE}, j.3) AS events
  FROM (
    SELECT toUnixTimestamp64Nano(start) AS at, outcome, outcome_reason{more},
      arrayJoin({_events(slos)}) AS j
    FROM {facts} WHERE {condition}
  )
)
WHERE notEmpty(events)"""


def _events(slos: Sequence[Slo]) -> str:
    """Write what every SLO makes of a fact: an array of (number from 1, group, events)."""
    each = (
        f"(toUInt16({number}), {group_sql(slo)}, [{', '.join(_answers(slo, number))}])"
        for number, slo in enumerate(slos, start=1)
    )
    return f"[{', '.join(each)}]"


def _answers(slo: Slo, number: int) -> Iterator[str]:
    clauses = 0
    for place, part in enumerate(slo.questions):
        judged = judgement_sql(part.eligible, part.good, f"{number}_{place}", clauses)
        is_known, weight = weight_sql(part.weight, f"weight_{number}_{place}")
        yield f"({judged}, {is_known}, {weight} * toUInt64({part.factor}))"
        clauses += len(part.good)


def _sum(condition: str) -> str:
    return f"arraySum(e -> if({condition}, e.3, toUInt64(0)), events)"


def _reasons(slos: Sequence[Slo], condition: str) -> str:
    reason = f"toString(assumeNotNull({reason_sql(slos, 'number', 'e.1')}))"
    pairs = f"arrayMap(e -> ({reason}, e.3), arrayFilter(e -> {condition} AND e.3 > 0, events))"
    return f"CAST({pairs}, 'Map(String, UInt64)')"
