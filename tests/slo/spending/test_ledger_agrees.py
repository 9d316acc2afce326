"""What is judged is what the ledger says, to the pico-dollar, however it was read."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from cost.report import CostRow
from slo.expression import Expression
from slo.parse import parse_filter
from slo.spending.judge import CostJudge
from slo.spending.model import CostSlo, Idle, Per
from slo.verdict import Spend, Verdict
from store.engine import Engine
from tests.slo.made_facts import dirty, put
from tests.slo.spending.world import (
    DAY,
    HOUR,
    MINUTE,
    T0,
    bill,
    by_group,
    cost_slo,
    hear,
    make_judge,
    replica,
    some_requests,
)

BY = ("tenant", "route")
FILTER: Expression = parse_filter("priority = 'batch'")


def spends(verdict: Verdict) -> dict[str, Spend]:
    assert verdict.cost is not None
    return {**verdict.cost.windows, "": verdict.cost.whole}


def check_against_the_ledger(engine: Engine, slo: CostSlo, verdicts: list[Verdict]) -> None:
    bills: dict[datetime, dict[tuple[str, ...], CostRow]] = {}
    for group, verdict in by_group(verdicts).items():
        assert verdict.cost is not None
        for spend in spends(verdict).values():
            if spend.since not in bills:
                rows = bill(engine, spend.since, verdict.cost.at, slo.group_by).rows
                used = [row for row in rows if row.kind == "used"]
                bills[spend.since] = {
                    tuple(value or "" for value in row.group.values()): row for row in used
                }
            row = bills[spend.since].get(group)
            expected = (0.0, 0) if row is None else (row.cost_usd, row.good)
            assert (spend.spent_usd, spend.units) == expected
    assert bills
    assert all(set(rows) <= set(by_group(verdicts)) for rows in bills.values())


def fill(engine: Engine, seed: int, count: int = 150, hours: int = 60) -> list[dict[str, Any]]:
    facts = some_requests(seed, count, hours)
    put(engine, facts)
    replica(engine, "r0", T0 + 10 * MINUTE, T0 + 50 * HOUR)
    replica(engine, "r1", T0 + 5 * HOUR, T0 + 20 * HOUR)
    hear(engine, T0 + hours * HOUR, hours * HOUR)
    return facts


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_every_window_is_the_ledger_of_that_window(engine: Engine, seed: int) -> None:
    fill(engine, seed)
    slo = cost_slo()
    judge = make_judge(engine, slo)

    for minutes in (60 * 60, 60 * 47 + 23, 60 * 5 + 1):
        verdicts = judge.evaluate(T0 + MINUTE * minutes + timedelta(seconds=31))

        check_against_the_ledger(engine, slo, verdicts)
        assert len(verdicts) == len({tuple(each.group.values()) for each in verdicts})


@pytest.mark.parametrize("seed", [11, pytest.param(12, marks=pytest.mark.deep)])
def test_late_requests_and_late_alive_records_end_in_the_same_numbers(
    engine: Engine, seed: int
) -> None:
    chance = random.Random(seed)
    facts = fill(engine, seed, count=60)
    slo = cost_slo(window=3 * DAY)
    judge, at = make_judge(engine, slo), T0 + 58 * HOUR + 17 * MINUTE
    judge.evaluate(at)

    for step in range(2):
        late = some_requests(seed + step + 1, 12, 57, first=1000 * (step + 1))
        late += [
            each | {"version": 2 + step, "outcome": "bad", "deleted": chance.choice([0, 0, 1])}
            for each in chance.sample(facts, 4)
        ]
        put(engine, late)
        judge.refresh(dirty(late), step)
        begins = T0 + HOUR * chance.randrange(50)
        replica(engine, chance.choice(["r0", "r1", "r2"]), begins, begins + 90 * MINUTE)

        kept, anew = judge.evaluate(at), make_judge(engine, slo).evaluate(at)

        assert [each.cost for each in kept] == [each.cost for each in anew]
    check_against_the_ledger(engine, slo, kept)


def test_groups_add_up_to_the_whole(engine: Engine) -> None:
    fill(engine, 3)
    parts, whole = cost_slo(name="parts"), cost_slo(name="whole", group_by=())
    at = T0 + 55 * HOUR

    verdicts = make_judge(engine, parts, whole).evaluate(at)

    (total,) = [each for each in verdicts if each.slo == "whole"]
    each = [spends(verdict)[""] for verdict in verdicts if verdict.slo == "parts"]
    assert sum(spend.spent_usd or 0 for spend in each) == pytest.approx(
        spends(total)[""].spent_usd, abs=1e-9
    )
    assert sum(spend.units for spend in each) == spends(total)[""].units


def test_shared_idle_makes_the_groups_the_whole_bill(engine: Engine) -> None:
    fill(engine, 4)
    slo = cost_slo(idle=Idle.SHARED)
    at = T0 + 57 * HOUR

    verdicts = make_judge(engine, slo).evaluate(at)

    since = spends(verdicts[0])[""].since
    totals = bill(engine, since, at, BY).totals
    shared = sum(spends(each)[""].spent_usd or 0 for each in verdicts)
    assert totals.idle_usd > 0
    assert shared == pytest.approx(totals.cost_usd, abs=1e-9)


def test_without_groups_shared_idle_is_borne_even_where_nobody_used_a_gpu(engine: Engine) -> None:
    replica(engine, "r0", T0, T0 + 2 * HOUR)
    slo = cost_slo(group_by=(), idle=Idle.SHARED)

    (verdict,) = make_judge(engine, slo).evaluate(T0 + 3 * HOUR)

    assert spends(verdict)[""].spent_usd == pytest.approx(2 * 4 * 2.79)


def test_only_eligible_requests_are_charged_and_the_rest_of_the_hour_is_not_theirs(
    engine: Engine,
) -> None:
    fill(engine, 5)
    at = T0 + 57 * HOUR
    slo = cost_slo(group_by=("tenant",), eligible=FILTER)

    verdicts = make_judge(engine, slo).evaluate(at)

    since = spends(verdicts[0])[""].since
    rows = bill(engine, since, at, ("tenant", "priority")).rows
    for verdict in verdicts:
        (row,) = [
            row for row in rows
            if row.kind == "used" and row.group == {**verdict.group, "priority": "batch"}
        ]  # fmt: skip
        assert spends(verdict)[""].spent_usd == pytest.approx(row.cost_usd, abs=1e-9)
        assert (verdict.good, verdict.bad, verdict.excluded) == (row.good, row.bad, row.excluded)


def test_a_million_tokens_is_a_unit(engine: Engine) -> None:
    fill(engine, 6)
    at = T0 + 57 * HOUR
    slo = cost_slo("2", Per.MILLION_TOKENS, ("tenant",))

    verdicts = make_judge(engine, slo).evaluate(at)

    rows = bill(engine, spends(verdicts[0])[""].since, at, ("tenant",)).rows
    for row in rows[:3]:
        spend = spends(by_group(verdicts)[row.group["tenant"],])[""]
        tokens = row.prompt_tokens + row.completion_tokens
        assert spend.units == tokens / 1e6
        assert spend.allowed_usd == pytest.approx(2 * tokens / 1e6)


def test_a_tick_ends_where_a_question_ends(engine: Engine) -> None:
    fill(engine, 7)
    slo = cost_slo(window=7 * DAY)
    judge, at = make_judge(engine, slo), T0 + 57 * HOUR + 3 * MINUTE

    ticks = [_ask(judge, at) for _ in range(8)]

    assert ticks[0] != ticks[-1]
    assert ticks[-1] == [each.cost for each in make_judge(engine, slo).evaluate(at)]


def _ask(judge: CostJudge, at: datetime) -> list[Any]:
    return [each.cost for each in judge.evaluate(at, is_tick=True)]
