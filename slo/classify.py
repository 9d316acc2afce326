"""SLO -> SQL that judges one fact. Pure.

Every fact falls in exactly one class: not eligible, excluded, good or bad. A bad one has one
reason: why the request itself failed, or else the first clause of `good` that it misses. A clause
that could not be decided, because the fact it reads is unknown, says so: unknown is not good.

A judgement is one number, so that every clause is written, and evaluated, once: 0 not eligible,
1 good, 3 excluded, and for clause k (from 0) 4 + 2k missed, 5 + 2k unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slo.compile import is_true, literal, to_sql
from slo.expression import Expression
from slo.parse import Clause

INELIGIBLE, GOOD, EXCLUDED, FIRST_BAD = 0, 1, 3, 4


class Classes(Protocol):
    """What classing a request asks of an SLO."""

    @property
    def eligible(self) -> Expression | None: ...
    @property
    def good(self) -> tuple[Clause, ...]: ...
    @property
    def group_by(self) -> tuple[str, ...]: ...


def judgements_sql(slos: Sequence[Classes]) -> str:
    """Write what every SLO makes of a fact: an array of (number from 1, group, judgement)."""
    each = (
        f"(toUInt16({number}), {group_sql(slo)}, "
        f"{judgement_sql(slo.eligible, slo.good, str(number))})"
        for number, slo in enumerate(slos, start=1)
    )
    return f"[{', '.join(each)}]"


def reason_sql(slos: Sequence[Classes], number: str, judgement: str) -> str:
    """Write why a fact is bad or excluded, from its judgement; meaningless for a good one."""
    clauses = ", ".join(
        "["
        + ", ".join(
            literal(text)
            for clause in slo.good
            for text in (clause.name, f"{clause.name} (unknown)")
        )
        + "]"
        for slo in slos
    )
    failed = "if(outcome_reason = '', toString(outcome), toString(outcome_reason))"
    return (
        f"if({judgement} = {EXCLUDED} OR outcome = 'bad', {failed}, "
        f"[{clauses}][{number}][{judgement} - {FIRST_BAD - 1}])"
    )


def judgement_sql(
    eligible: Expression | None, good: Sequence[Clause], name: str, first: int = 0
) -> str:
    """Write the judgement of one question; `name` makes its aliases its own.

    `first` is how many clauses the SLO's other questions have before these.
    """
    asked = "" if eligible is None else f"NOT {is_true(eligible)}, {INELIGIBLE}, "
    clauses = ""
    for position, clause in enumerate(good):
        met, code = f"met_{name}_{position}", FIRST_BAD + 2 * (first + position)
        clauses += (
            f"(ifNull(toUInt8({to_sql(clause.expression)}), 2) AS {met}) = 0, {code}, "
            f"{met} = 2, {code + 1}, "
        )
    return f"toUInt16(multiIf({asked}outcome = 'excluded', {EXCLUDED}, {clauses}{GOOD}))"


def group_sql(slo: Classes) -> str:
    """Write the group of a fact; an unknown member is ''."""
    if not slo.group_by:
        return "CAST([], 'Array(String)')"
    return f"CAST([{', '.join(f'toString({column})' for column in slo.group_by)}], 'Array(String)')"
