"""Budgets of dollars: arithmetic, tiers, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from base.shares import split
from slo.spending.account import account, budget_left, doubts, judge_tier, lasts
from slo.spending.cell import Cell, Counted, spent_apart, spent_shared
from slo.spending.model import PICO, Per
from slo.spending.tiers import derive
from tests.slo.spending.world import DAY, HOUR, MINUTE, T0, cost_slo, tier

SLO = cost_slo("0.5", min_overspend=PICO)
TIER = tier(2, 6 * HOUR, HOUR)
groups = st.sampled_from([("a",), ("b",), ("c",), None])
pools = st.sampled_from(["", "model x", "model y"])
cells = st.builds(
    Cell,
    st.dictionaries(st.tuples(groups, pools), st.integers(1, 10**18), max_size=8),
    st.dictionaries(pools.filter(bool), st.integers(0, 10**18), max_size=2),
    st.just({}),
)


def spent(usd: float, good: int, **more: int) -> Any:
    return account(SLO, T0, round(usd * PICO), Counted(good=good, **more))


def judged(long: Any, short: Any, **more: Any) -> tuple[bool, bool]:
    found = {TIER.long: long, TIER.short: short}
    verdict = judge_tier(SLO, TIER, found, more.pop("heard", {}), 0.9)
    return verdict.burning, verdict.known


@given(cells)
def test_shared_spending_is_all_of_it_where_anybody_used_a_gpu(cell: Cell) -> None:
    others = sum(amount for (bearer, _), amount in cell.charged.items() if bearer is None)
    shared = spent_shared(Cell({k: v for k, v in cell.charged.items() if k[0]}, cell.unused, {}))

    used = any(bearer and pool for bearer, pool in cell.charged)
    unused = sum(cell.unused.values()) if used else 0
    assert sum(shared.values()) == sum(cell.charged.values()) - others + unused


@given(cells)
def test_who_is_not_asked_about_bears_its_own_share(cell: Cell) -> None:
    renamed = Cell({(b or ("z",), p): v for (b, p), v in cell.charged.items()}, cell.unused, {})
    everybody = spent_shared(renamed)

    assert spent_shared(cell) == {g: v for g, v in everybody.items() if g != ("z",)}
    assert spent_apart(cell) == {g: v for g, v in spent_apart(renamed).items() if g != ("z",)}


def test_idle_gpus_of_a_model_are_borne_by_those_who_use_it() -> None:
    cell = Cell({(("a",), "x"): 10, (("b",), "y"): 30, (("b",), "x"): 30}, {"x": 100, "z": 7}, {})

    shared = spent_shared(cell)

    assert shared == {("a",): 10 + 25 + 1, ("b",): 60 + 75 + 6}


@given(st.integers(0, 10**20), st.lists(st.integers(0, 10**15), min_size=1))
def test_a_split_loses_nothing(amount: int, weights: list[int]) -> None:
    assert sum(split(amount, weights)) == (amount if sum(weights) else 0)


def test_a_burn_is_what_was_spent_over_what_may_be() -> None:
    found = spent(8, 4)

    assert found.burn == 4
    assert budget_left(found) == -3
    assert found.spend().usd_per_unit == 2


def test_spending_with_nothing_to_show_for_it_is_held_against_one_unit() -> None:
    found = spent(8, 0, bad=70)

    assert found.burn == 16
    assert found.spend().usd_per_unit is None
    assert judged(found, found) == (True, True)


def test_a_group_that_did_nothing_has_no_burn() -> None:
    assert spent(0, 0).burn is None
    assert budget_left(spent(0, 0)) is None
    assert judged(None, None) == (False, True)


def test_free_units_do_not_burn() -> None:
    assert spent(0, 5).burn == 0
    assert budget_left(spent(0, 5)) == 1


def test_what_has_no_price_is_unknown_and_never_zero() -> None:
    found = spent(0, 5, unpriced=5)

    assert found.burn is None
    assert found.spend().spent_usd is None
    assert judged(found, found) == (False, False)
    assert "none of its spending is known: 5 of 5 requests have no price" in (
        doubts(SLO, found) or ""
    )


def test_a_burn_that_is_known_in_part_is_a_burn() -> None:
    found = spent(9, 5, unpriced=3)

    assert judged(found, found) == (True, True)
    assert "3 of 5 requests have no price" in (doubts(SLO, found) or "")


def test_a_few_requests_without_a_price_do_not_freeze_what_is_calm() -> None:
    assert judged(spent(1, 100, unpriced=9), spent(1, 100)) == (False, True)
    assert judged(spent(1, 100, unpriced=11), spent(1, 100)) == (False, False)


def test_a_tier_needs_both_windows_and_a_dollar_too_much() -> None:
    dear, cheap, small = spent(10, 5), spent(1, 5), spent(0.9, 0)

    assert judged(dear, dear) == (True, True)
    assert judged(dear, cheap) == (False, True)
    assert judged(cheap, dear) == (False, True)
    assert judged(small, dear) == (False, True)


def test_what_was_not_heard_may_have_been_free() -> None:
    dear = spent(10, 5)

    assert judged(dear, dear, heard={TIER.long: 0.6}) == (True, True)
    assert judged(dear, dear, heard={TIER.long: 0.4}) == (False, False)


def test_tokens_that_nobody_counted_do_not_make_it_dear() -> None:
    slo = replace(SLO, per=Per.MILLION_TOKENS)
    counted = Counted(good=10, tokens=1000, unmetered=8)
    found = account(slo, T0, 5 * PICO, counted)

    verdict = judge_tier(slo, TIER, {TIER.long: found, TIER.short: found}, {}, 0.9)

    assert (verdict.burning, verdict.known) == (False, False)


def test_a_part_of_a_million_tokens_is_allowed_its_part() -> None:
    slo = replace(SLO, per=Per.MILLION_TOKENS)

    assert account(slo, T0, 0, Counted(tokens=2000)).allowed == 10**9
    assert account(slo, T0, 0, Counted()).allowed == 500_000


def test_an_allowance_lasts_until_the_mean_reaches_it() -> None:
    assert lasts(0.5, 2.0, 30 * DAY) == 10 * DAY
    assert lasts(0.5, 1.0, 30 * DAY) is None
    assert lasts(0.5, 1.4, 30 * DAY) is None or lasts(0.5, 1.4, 30 * DAY) < 30 * DAY
    assert lasts(-0.1, 0.5, 30 * DAY) == timedelta(0)
    assert lasts(None, 2.0, 30 * DAY) is None


def test_derived_tiers_page_only_for_what_runs_away() -> None:
    month, hour = derive(30 * DAY), derive(HOUR)

    assert [(t.name, t.severity, t.factor) for t in month] == [
        ("runaway", "page", 5.0), ("dear", "ticket", 2.0), ("drift", "ticket", 1.1),
    ]  # fmt: skip
    assert [(t.long, t.short) for t in month] == [
        (6 * HOUR, HOUR), (DAY, 6 * HOUR), (7 * DAY, DAY),
    ]  # fmt: skip
    assert all(not t.long % MINUTE and t.short < t.long <= HOUR for t in hour)
    assert len(hour) == 3
