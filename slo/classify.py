"""SLO -> SQL that judges one fact. Pure.

Every fact falls in exactly one class: not eligible, excluded, good or bad. A bad one has one
reason: why the request itself failed, or else the first clause of `good` that it misses. A clause
that could not be decided, because the fact it reads is unknown, says so: unknown is not good.
"""

from __future__ import annotations

from collections.abc import Sequence

from slo.compile import is_true, literal, to_sql
from slo.model import Slo

INELIGIBLE, GOOD, BAD, EXCLUDED = 0, 1, 2, 3


def class_sql(slo: Slo) -> str:
    """Write the class of a fact as one of the four numbers."""
    good = " AND ".join(is_true(clause.expression) for clause in slo.good)
    eligible = "" if slo.eligible is None else f"NOT {is_true(slo.eligible)}, {INELIGIBLE}, "
    return f"multiIf({eligible}outcome = 'excluded', {EXCLUDED}, {good}, {GOOD}, {BAD})"


def reason_sql(slo: Slo) -> str:
    """Write why a fact is bad or excluded; meaningless for the others."""
    failed = "outcome != 'good', if(outcome_reason = '', toString(outcome), outcome_reason)"
    missed = ", ".join(
        f"isNull({to_sql(clause.expression)}), {literal(clause.name + ' (unknown)')}, "
        f"NOT {to_sql(clause.expression)}, {literal(clause.name)}"
        for clause in slo.good
    )
    return f"CAST(multiIf({failed}, {missed}, ''), 'String')"


def group_sql(slo: Slo) -> str:
    """Write the group of a fact; an unknown member is ''."""
    if not slo.group_by:
        return "CAST([], 'Array(String)')"
    return f"CAST([{', '.join(f'toString({column})' for column in slo.group_by)}], 'Array(String)')"


def judged_sql(slos: Sequence[Slo]) -> str:
    """Write what every SLO makes of a fact: an array of (number from 1, group, class, reason)."""
    return (
        "["
        + ", ".join(
            f"(toUInt16({number}), {group_sql(slo)}, toUInt8({class_sql(slo)}), {reason_sql(slo)})"
            for number, slo in enumerate(slos, start=1)
        )
        + "]"
    )
