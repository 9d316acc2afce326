import random
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.clock import ManualClock
from slo.counts import SloCounts
from slo.evaluator import Evaluator, windows_of
from slo.model import Slo
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.tiers import derive
from slo.verdict import State, Verdict
from store.engine import Engine
from tests.slo.conftest import empty
from tests.slo.made_facts import EPOCH, alive, fact, put

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
NOW = EPOCH + timedelta(days=2)


def make_slo(group_by: tuple[str, ...] = ("tenant",), window: timedelta = HOUR) -> Slo:
    return Slo(
        name="availability" if group_by else "parent",
        objective=0.9,
        window=window,
        good=parse_clauses("outcome = 'good'"),
        tiers=derive(0.9, window),
        group_by=group_by,
        description="answered",
        labels={"team": "platform"},
    )


SLO = make_slo()


def judge(engine: Engine, *slos: Slo, at: timedelta = timedelta(0)) -> list[Verdict]:
    documents = slos or (SLO,)
    SloCounts(engine, documents, SloSettings(), ManualClock(NOW)).ensure()
    return Evaluator(engine, documents, SloSettings()).evaluate(NOW + at)


def heard(engine: Engine, minutes: int = 60, until: timedelta = timedelta(0)) -> None:
    alive(engine, [NOW + until - MINUTE * number - SECOND for number in range(minutes)])


def stream(
    engine: Engine, ago: timedelta, count: int, *, every: timedelta = SECOND, first: int = 0,
    outcome: str = "good", **fields: object,
) -> None:  # fmt: skip
    put(
        engine,
        [
            fact(NOW - ago + every * number, first + number, outcome=outcome, **fields)
            for number in range(count)
        ],
    )


def test_without_any_source_everything_is_absent(engine: Engine) -> None:
    (verdict,) = judge(engine)

    assert verdict.state is State.ABSENT
    assert verdict.group == {}
    assert (verdict.sli, verdict.budget_remaining, verdict.watermark) == (None, None, None)
    assert (verdict.coverage, verdict.expires_in) == (None, None)
    assert set(verdict.burn.values()) == {None}


def test_a_source_that_is_alive_but_idle_means_no_traffic(engine: Engine) -> None:
    heard(engine)

    (verdict,) = judge(engine)

    assert verdict.state is State.NO_TRAFFIC
    assert verdict.budget_remaining is None
    assert verdict.coverage == 1
    assert verdict.watermark == NOW - SECOND


def test_a_tenant_that_stopped_calling_keeps_its_budget_and_burns_nothing(engine: Engine) -> None:
    heard(engine)
    stream(engine, 50 * MINUTE, 100, outcome="bad", outcome_reason="timeout")
    stream(engine, 48 * MINUTE, 1900, first=100, every=timedelta(milliseconds=50))

    (verdict,) = judge(engine)

    assert verdict.state is State.NO_TRAFFIC
    assert verdict.budget_remaining == pytest.approx(0.5)
    assert verdict.burn["5m"] is None
    assert not any(tier.burning for tier in verdict.tiers)


def test_a_silent_source_freezes_the_verdict(engine: Engine) -> None:
    heard(engine)
    stream(engine, 5 * MINUTE, 290, outcome="bad", outcome_reason="timeout")

    (burning,) = judge(engine)
    (silent,) = judge(engine, at=3 * MINUTE)

    assert burning.state is State.BURNING
    assert silent.state is State.STALE
    assert silent.watermark == NOW - SECOND


def test_the_outermost_layer_decides_even_while_the_layers_behind_it_talk(engine: Engine) -> None:
    heard(engine, until=-5 * MINUTE)
    alive(engine, [NOW - SECOND], layer="engine")

    (verdict,) = judge(engine)

    assert verdict.state is State.STALE
    assert verdict.watermark == NOW - 5 * MINUTE - SECOND


def test_without_a_gateway_the_next_layer_decides(engine: Engine) -> None:
    alive(engine, [NOW - SECOND], layer="engine")

    (verdict,) = judge(engine)

    assert verdict.state is State.NO_TRAFFIC


def test_coverage_is_the_share_of_minutes_in_which_a_source_was_heard(engine: Engine) -> None:
    alive(engine, [NOW - 40 * MINUTE + MINUTE * number for number in range(10)])
    alive(engine, [NOW - SECOND])

    (verdict,) = judge(engine)

    assert verdict.coverage == pytest.approx(11 / 40)


def test_a_burst_of_failures_burns_and_says_why(engine: Engine) -> None:
    heard(engine)
    stream(engine, HOUR - SECOND, 3000)
    stream(engine, 280 * SECOND, 280, first=4000, outcome="bad", outcome_reason="capacity")
    stream(engine, 5 * MINUTE, 20, first=5000, outcome="bad")
    stream(engine, 5 * MINUTE, 7, first=6000, outcome="excluded", outcome_reason="quota")

    (verdict,) = judge(engine)

    assert verdict.state is State.BURNING
    assert verdict.bad_reasons == {"capacity": 280, "bad": 20}
    assert (verdict.good, verdict.bad, verdict.excluded) == (3000, 300, 7)
    assert verdict.total == 3300
    assert verdict.annotations == {"description": "answered"}
    assert any(tier.burning and tier.severity == "page" for tier in verdict.tiers)
    assert verdict.expires_in is not None
    assert timedelta(0) < verdict.expires_in < timedelta(minutes=10)


def test_an_overspent_budget_that_burns_no_more_is_exhausted(engine: Engine) -> None:
    heard(engine)
    stream(engine, 50 * MINUTE, 1000, outcome="bad", outcome_reason="timeout")
    stream(engine, 20 * MINUTE, 1199)

    (verdict,) = judge(engine)

    assert verdict.state is State.EXHAUSTED
    assert verdict.expires_in == timedelta(0)
    assert verdict.budget_remaining is not None
    assert verdict.budget_remaining < 0


def test_the_past_is_judged_as_it_was(engine: Engine) -> None:
    heard(engine, minutes=120)
    stream(engine, 90 * MINUTE, 100, outcome="bad", outcome_reason="timeout")
    stream(engine, MINUTE, 50, first=200)

    (then,) = judge(engine, at=-85 * MINUTE)
    (now,) = judge(engine)

    assert (then.good, then.bad) == (0, 100)
    assert (now.good, now.bad) == (50, 0)


@given(seed=st.integers(0, 10**6))
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_groups_sum_to_the_parent_and_a_window_holds_every_shorter_one(
    engine: Engine, seed: int
) -> None:
    empty(engine)
    rng = random.Random(seed)
    put(
        engine,
        [
            fact(
                NOW - HOUR * rng.random() * 2,
                number,
                tenant=rng.choice(["acme", "umbrella", ""]),
                model=rng.choice("ab"),
                outcome=rng.choice(["good", "bad", "excluded"]),
            )
            for number in range(300)
        ],
    )
    alive(engine, [NOW])
    children, parent = make_slo(("tenant", "model")), make_slo(())

    verdicts = judge(engine, children, parent)

    (whole,) = [each for each in verdicts if each.slo == "parent"]
    parts = [each for each in verdicts if each.slo == "availability"]
    for field in ("good", "bad", "excluded"):
        assert sum(getattr(each, field) for each in parts) == getattr(whole, field)
    assert all(rate is None or rate >= 0 for rate in whole.burn.values())


def test_every_window_of_the_tiers_is_shown_next_to_the_usual_ones() -> None:
    month = make_slo(window=timedelta(days=30))

    assert {5 * MINUTE, 30 * MINUTE, HOUR, 6 * HOUR} <= set(windows_of(month))
    assert timedelta(days=30) in windows_of(month)
    assert 6 * HOUR not in windows_of(SLO)
