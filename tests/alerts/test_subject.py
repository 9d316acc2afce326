from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from alerts.model import Burning, Clear, Severity, Unknown
from alerts.subject import subject_of
from slo.verdict import CostVerdict, Spend, State


def test_the_loudest_tier_that_burns_is_read(say: SimpleNamespace) -> None:
    reading = subject_of(say.paging(), say.settings(keep_firing_for=None)).reading

    assert reading == Burning(Severity.PAGE, "fast", timedelta(0), timedelta(minutes=5))


def test_hysteresis_is_the_short_window_unless_it_is_set(say: SimpleNamespace) -> None:
    derived = subject_of(say.ticketing(), say.settings(keep_firing_for=None)).reading
    fixed = subject_of(say.ticketing(), say.settings(keep_firing_for="3s")).reading

    assert isinstance(derived, Burning)
    assert isinstance(fixed, Burning)
    assert (derived.keep_for, fixed.keep_for) == (timedelta(hours=2), timedelta(seconds=3))


def test_an_incident_is_held_as_long_as_the_tier_asks(say: SimpleNamespace) -> None:
    held = replace(say.tier("page"), hold=timedelta(hours=3))

    verdict = say.verdict(State.BURNING, tiers=[held])
    reading = subject_of(verdict, say.settings(keep_firing_for=None)).reading

    assert isinstance(reading, Burning)
    assert reading.keep_for == timedelta(hours=3)


def test_a_verdict_frozen_by_gaps_says_which_windows_were_not_heard(say: SimpleNamespace) -> None:
    verdict = say.verdict(
        State.STALE, tiers=[replace(say.tier("page", burning=False), known=False)]
    )

    reading = subject_of(replace(verdict, watermark=verdict.at), say.settings()).reading

    assert reading == Unknown("the source was not heard for much of the last 1h")


@pytest.mark.parametrize(
    ("state", "reading"),
    [
        (State.OK, Clear),
        (State.EXHAUSTED, Clear),
        (State.NO_TRAFFIC, Clear),
        (State.STALE, Unknown),
        (State.ABSENT, Unknown),
    ],
)
def test_a_state_without_a_burning_tier_is_calm_or_unknown(
    state: State, reading: type, say: SimpleNamespace
) -> None:
    assert isinstance(subject_of(say.verdict(state), say.settings()).reading, reading)


def test_a_stale_verdict_is_unknown_whatever_its_tiers_say(say: SimpleNamespace) -> None:
    verdict = say.verdict(State.STALE, tiers=[say.tier("page")])

    assert isinstance(subject_of(verdict, say.settings()).reading, Unknown)


def test_identity_is_the_slo_and_the_group_and_nothing_measured(say: SimpleNamespace) -> None:
    settings = say.settings()
    page, ticket = subject_of(say.paging(), settings), subject_of(say.ticketing(), settings)
    other = subject_of(say.paging(group={"tenant": "beta"}), settings)
    tricky = subject_of(say.paging(group={"slo": "chat-ttft"}), settings)

    assert page.fingerprint == ticket.fingerprint
    assert len({page.fingerprint, other.fingerprint, tricky.fingerprint}) == 3


def test_an_slo_about_cost_is_told_in_dollars_of_the_window_that_burns(
    say: SimpleNamespace,
) -> None:
    verdict = replace(say.paging(), objective=None, sli=None, cost=cost_of(say))

    facts = subject_of(verdict, say.settings()).facts

    assert (facts.objective, facts.burn) == (None, 20.0)
    assert facts.cost["window"] == "1h"
    assert (facts.cost["spent_usd"], facts.cost["usd_per_unit"]) == (1.8, 0.08)
    assert (facts.cost["budget_spent_usd"], facts.cost["budget_allowed_usd"]) == (60.0, 40.0)


def test_a_bill_without_prices_freezes_and_says_why(say: SimpleNamespace) -> None:
    cost = replace(cost_of(say), unpriced_requests=9, unpriced_share=1.0)
    verdict = replace(say.stale(), cost=cost, problem="9 of 9 requests have no price")

    reading = subject_of(verdict, say.settings()).reading

    assert reading == Unknown("9 of 9 requests have no price")


def cost_of(say: SimpleNamespace) -> CostVerdict:
    at = say.verdict().at
    return CostVerdict(
        at_most_usd=0.004,
        per="good_request",
        idle="apart",
        at=at,
        whole=Spend(at - timedelta(days=30), 60.0, 40.0, 10_000, 0.006),
        windows={"1h": Spend(at - timedelta(hours=1), 1.8, 0.09, 22.5, 0.08)},
    )
