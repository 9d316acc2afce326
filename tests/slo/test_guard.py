import math
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.clock import ManualClock
from slo.budget import Count, allowance
from slo.burn import judge, judge_many
from slo.counts import SloCounts
from slo.evaluator import Evaluator, heard_of
from slo.guard import FALSE_PAGES, HEALTHY, SPARSE_PER_HOUR, Tally, evidence, needed
from slo.liveness import Layer
from slo.model import Slo
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.tiers import Tier, derive
from slo.verdict import State, TierVerdict, Verdict
from store.engine import Engine
from tests.slo.made_facts import EPOCH, alive, fact, put

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
MONTH = timedelta(days=30)
OBJECTIVES = [0.9, 0.95, 0.99, 0.999]
TIER = Tier("fast", "page", 10, HOUR, 5 * MINUTE, min_bad=5)


def tail(bad: int, total: int, share: Fraction) -> Fraction:
    """Add up, exactly, the chances of `bad` or more of `total`."""
    return sum(
        (
            math.comb(total, k) * share**k * (1 - share) ** (total - k)
            for k in range(bad, total + 1)
        ),
        Fraction(0),
    )


@given(
    st.integers(0, 40), st.integers(0, 40), st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999, 0.9999])
)
def test_evidence_never_makes_bad_luck_look_rarer_than_it_is(
    bad: int, good: int, objective: float
) -> None:
    healthy = Fraction(HEALTHY) * Fraction(str(allowance(objective)))

    nats = float(evidence(np.array(bad), np.array(bad + good), objective))

    assert nats >= 0
    assert math.exp(-nats) >= float(tail(bad, bad + good, healthy)) * (1 - 1e-9)


@given(st.integers(1, 40), st.sampled_from(OBJECTIVES))
def test_evidence_of_a_run_is_exact(run: int, objective: float) -> None:
    nats = float(evidence(np.array(run), np.array(run), objective))

    assert math.exp(-nats) == pytest.approx((HEALTHY * allowance(objective)) ** run)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 500), st.sampled_from(OBJECTIVES))
def test_more_bad_is_more_evidence_and_more_good_is_less(
    bad: int, good: int, more: int, objective: float
) -> None:
    def of(bad: int, good: int) -> float:
        return float(evidence(np.array(bad), np.array(bad + good), objective))

    assert of(bad + more, good) >= of(bad, good) - 1e-9
    assert of(bad, good + more) <= of(bad, good) + 1e-9


@given(st.floats(0.01, 1e6))
def test_who_is_looked_at_more_often_needs_more_evidence(per_hour: float) -> None:
    enough = float(needed(np.array(per_hour)))

    assert math.exp(-enough) * max(1, per_hour * 720) == pytest.approx(FALSE_PAGES)


def arrivals(per_hour: float, rng: random.Random) -> Iterator[timedelta]:
    at = timedelta(0)
    while True:
        at += HOUR * rng.expovariate(per_hour)
        yield at


def judged_after(times: list[timedelta], good: int, objective: float) -> list[TierVerdict]:
    """Judge at the last of these starts, of which all after the first `good` failed."""
    now, tiers = times[-1], derive(objective, MONTH)
    lengths = {MONTH, *(length for tier in tiers for length in (tier.long, tier.short))}
    counts = {
        length: Count(
            sum(now - at < length for at in times[:good]),
            sum(now - at < length for at in times[good:]),
        )
        for length in lengths
    }
    return [
        judge(tier, counts, objective, run=len(times) - good)
        for tier in tiers
        if tier.severity == "page"
    ]


@pytest.mark.parametrize("per_hour", [0.1, 1, 5, 10, 30])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_total_outage_of_a_quiet_tenant_pages_with_its_fifth_failed_request(
    objective: float, per_hour: float
) -> None:
    rng = random.Random(f"{objective} {per_hour}")
    for _ in range(20):
        source = arrivals(per_hour, rng)
        times = [next(source) for _ in range(max(20, int(per_hour * 24)) + 5)]

        assert not any(each.burning for each in judged_after(times[:-1], len(times) - 5, objective))
        assert any(each.burning for each in judged_after(times, len(times) - 5, objective))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("per_hour", [1, 10, 100])
def test_a_healthy_quiet_tenant_hardly_ever_pages(objective: float, per_hour: int) -> None:
    rng = np.random.default_rng(per_hour)
    tenants, minutes = 10, 30 * 1440
    bad_share = allowance(objective) / 2
    total = rng.poisson(per_hour / 60, (tenants, minutes))
    bad = rng.binomial(total, bad_share)
    sums = [np.pad(np.cumsum(each, axis=1), ((0, 0), (1, 0))) for each in (bad, total)]
    tiers = derive(objective, MONTH)
    lengths = {MONTH, *(length for tier in tiers for length in (tier.long, tier.short))}
    ends = np.arange(1, minutes + 1)

    def window(length: timedelta) -> Tally:
        first = np.maximum(ends - length // MINUTE, 0)
        return Tally(*((each[:, ends] - each[:, first]).ravel() for each in sums))

    windows = {length: window(length) for length in lengths}
    good_at = np.where(total > bad, np.arange(minutes), -1)
    last = np.maximum.accumulate(good_at, axis=1)
    run = sums[0][:, 1:] - np.take_along_axis(sums[0], last + 1, axis=1)

    burning = np.logical_or.reduce(
        [
            judge_many(tier, objective, windows, run.ravel()).burning
            for tier in tiers
            if tier.severity == "page"
        ]
    ).reshape(tenants, -1)
    pages = np.count_nonzero(burning[:, 1:] & ~burning[:, :-1])

    assert pages / tenants <= 0.1


def test_the_short_window_of_a_sparse_group_reaches_back_to_its_newest_five_requests() -> None:
    counts = {5 * MINUTE: Count(0, 0), 30 * MINUTE: Count(1, 3), HOUR: Count(1, 6)}

    few = judge(TIER, counts, 0.99)
    enough = judge(TIER, counts | {30 * MINUTE: Count(5, 0)}, 0.99)

    assert (few.burning, few.short_burn) == (True, pytest.approx(600 / 7))
    assert (enough.burning, enough.short_burn) == (False, 0)


def test_who_is_sparse_is_decided_by_the_busiest_of_the_longer_windows() -> None:
    counts = {HOUR: Count(0, 9), 5 * MINUTE: Count()}
    day = timedelta(days=1)

    assert judge(TIER, counts | {day: Count(0, 9)}, 0.99).burning
    assert not judge(TIER, counts | {day: Count(SPARSE_PER_HOUR * 25, 9)}, 0.99).burning


def test_a_run_of_failures_burns_while_the_long_window_has_traffic() -> None:
    fresh = {HOUR: Count(0, 1), MONTH: Count(500, 5)}
    old = {HOUR: Count(), MONTH: Count(500, 5)}

    assert judge(TIER, fresh, 0.99, run=5).burning
    assert not judge(TIER, fresh, 0.99, run=4).burning
    assert not judge(TIER, old, 0.99, run=5).burning


def test_a_loose_objective_asks_for_a_longer_run() -> None:
    tier = Tier("outage", "page", 1.5, HOUR, MINUTE)
    counts = {HOUR: Count(0, 5), MONTH: Count(6000, 6000)}

    assert [judge(tier, counts, 0.5, run=n).burning for n in (5, 8, 9)] == [False, False, True]


def test_more_traffic_than_a_guard_can_count_is_no_trouble() -> None:
    tier = derive(0.9, MONTH)[0]
    counts = {tier.long: Count(10**12, 10**14), tier.short: Count(0, 10**13)}

    assert judge(tier, counts, 0.9, run=10**14).burning


@given(
    share=st.floats(0, 1), bad=st.integers(0, 300), good=st.integers(0, 300),
    objective=st.sampled_from(OBJECTIVES),
)  # fmt: skip
def test_what_is_known_in_spite_of_a_gap_is_true_whatever_the_gap_held(
    share: float, bad: int, good: int, objective: float
) -> None:
    missed = round((bad + good) * (1 / max(share, 0.01) - 1))
    share = (bad + good) / (bad + good + missed) if bad + good else share
    verdicts = {}
    for tier in derive(objective, MONTH):

        def counted(extra_good: int, extra_bad: int) -> TierVerdict:
            count = Count(good + extra_good, bad + extra_bad)
            return judge(tier, {tier.long: count, tier.short: count}, objective)  # noqa: B023

        gap = {tier.long: share, tier.short: share}
        count = Count(good, bad)
        verdicts[tier.name] = judge(
            tier, {tier.long: count, tier.short: count}, objective, heard=gap
        )
        if verdicts[tier.name].burning:
            assert counted(missed, 0).long_burn >= tier.factor * (1 - 1e-9)  # type: ignore[operator]
        elif verdicts[tier.name].known:
            best = counted(0, missed)
            assert not best.burning or best.long_burn == pytest.approx(tier.factor)


def test_too_little_heard_neither_fires_nor_calms() -> None:
    counts = {HOUR: Count(850, 150), 5 * MINUTE: Count(70, 30)}

    assert judge(TIER, counts, 0.99).burning
    unsure = judge(TIER, counts, 0.99, heard={HOUR: 0.6})
    assert (unsure.burning, unsure.known) == (False, False)


def test_a_total_outage_fires_through_a_gap() -> None:
    counts = {HOUR: Count(0, 800), 5 * MINUTE: Count(0, 100)}

    assert judge(TIER, counts, 0.99, heard={HOUR: 0.2}).burning


def test_a_calm_short_window_that_was_heard_is_known_to_be_calm() -> None:
    counts = {HOUR: Count(500, 300), 5 * MINUTE: Count(100, 0)}

    verdict = judge(TIER, counts, 0.99, heard={HOUR: 0.5})

    assert (verdict.burning, verdict.known) == (False, True)


def layer(**coverage: float) -> Layer:
    lengths = {"short": 5 * MINUTE, "long": HOUR, "whole": MONTH}
    return Layer("gateway", EPOCH, EPOCH, {lengths[k]: v for k, v in coverage.items()})


def slo(objective: float = 0.9, window: timedelta = timedelta(days=1)) -> Slo:
    return Slo(
        "availability", objective, window, parse_clauses("outcome = 'good'"),
        derive(objective, window), group_by=("tenant",),
    )  # fmt: skip


def test_a_gap_as_long_as_a_silence_may_last_is_let_pass() -> None:
    one = Slo("x", 0.99, MONTH, (), (TIER,))

    heard = heard_of(one, layer(short=0.6, long=0.89, whole=0.97), SloSettings())

    assert heard[HOUR] == 0.89
    assert 5 * MINUTE not in heard
    assert MONTH not in heard


def judge_at(engine: Engine, document: Slo, minutes: float) -> Verdict:
    SloCounts(engine, [document], SloSettings(), ManualClock(EPOCH)).ensure()
    evaluator = Evaluator(engine, [document], SloSettings())
    (verdict,) = evaluator.evaluate(EPOCH + MINUTE * minutes)
    return verdict


def heard_during(engine: Engine, *spans: tuple[int, int]) -> None:
    alive(engine, [EPOCH + MINUTE * m for first, end in spans for m in range(first, end)])


@pytest.mark.parametrize("per_hour", [1, 10])
def test_the_store_knows_the_fifth_failure_of_a_quiet_tenant(engine: Engine, per_hour: int) -> None:
    gap = HOUR / per_hour
    heard_during(engine, (0, 24 * 60))
    facts = [fact(EPOCH + gap * n, n) for n in range(10)]
    facts += [fact(EPOCH + gap * n, n, outcome="bad") for n in range(10, 15)]
    put(engine, facts)
    fifth = 14 * gap / MINUTE

    before = judge_at(engine, slo(window=MONTH), fifth - 0.1)
    after = judge_at(engine, slo(window=MONTH), fifth)

    assert (before.state, before.bad_in_a_row) == (State.EXHAUSTED, 4)
    assert (after.state, after.bad_in_a_row) == (State.BURNING, 5)
    assert any(tier.burning and tier.severity == "page" for tier in after.tiers)


def test_a_collector_that_was_down_freezes_what_it_did_not_hear(engine: Engine) -> None:
    document = replace(slo(0.95, MONTH), tiers=(replace(TIER, factor=4),))
    heard_during(engine, (0, 60), (70, 200))
    put(engine, [fact(EPOCH + 5 * SECOND * n, n) for n in range(12 * 60)])
    put(
        engine,
        [
            fact(EPOCH + 70 * MINUTE + SECOND * n, 1000 + n, outcome="bad" if n % 3 else "good")
            for n in range(240)
        ],
    )

    silent = judge_at(engine, document, 68)
    partly = judge_at(engine, document, 74)

    assert silent.state is State.STALE
    assert partly.state is State.STALE
    assert not any(tier.burning for tier in partly.tiers)


def test_a_total_outage_with_traffic_pages_after_a_gap(engine: Engine) -> None:
    document = replace(slo(0.95, MONTH), tiers=(replace(TIER, factor=4),))
    heard_during(engine, (0, 60), (70, 200))
    put(engine, [fact(EPOCH + 5 * SECOND * n, n) for n in range(12 * 60)])
    put(
        engine,
        [fact(EPOCH + 70 * MINUTE + SECOND * n, 1000 + n, outcome="bad") for n in range(299)],
    )

    verdict = judge_at(engine, document, 75)

    assert verdict.state is State.BURNING
    assert any(tier.burning and tier.severity == "page" for tier in verdict.tiers)
