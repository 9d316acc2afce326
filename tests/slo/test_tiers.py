from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budget import Count
from slo.burn import judge
from slo.tiers import Tier, can_fire, derive, max_burn

MONTH = timedelta(days=30)
EVERY = timedelta(seconds=10)


def window_counts(
    tiers: tuple[Tier, ...], outage: timedelta, per_hour: float
) -> dict[timedelta, Count]:
    """Count a steady stream that was good until an outage began: each window at its end."""
    counts = {}
    for length in {length for tier in tiers for length in (tier.long, tier.short)}:
        bad = int(min(length, outage) / timedelta(hours=1) * per_hour)
        total = int(length / timedelta(hours=1) * per_hour)
        counts[length] = Count(max(0, total - bad), bad)
    return counts


def time_to_page(objective: float, window: timedelta, per_hour: float) -> timedelta:
    tiers = derive(objective, window)
    outage = EVERY
    while outage < timedelta(hours=6):
        counts = window_counts(tiers, outage, per_hour)
        verdicts = [judge(tier, counts, objective) for tier in tiers]
        if any(each.burning for each in verdicts if each.severity == "page"):
            return outage
        outage += EVERY
    raise AssertionError("a total outage never pages")


@pytest.mark.parametrize("percent", [90, 92, 95, 97.5, 99, 99.5, 99.9, 99.95, 99.99])
@pytest.mark.parametrize("per_s", [1, 100])
def test_a_total_outage_pages_within_five_minutes(percent: float, per_s: int) -> None:
    assert time_to_page(percent / 100, MONTH, per_s * 3600) <= timedelta(minutes=5)


@pytest.mark.parametrize("percent", [90, 95, 99])
@pytest.mark.parametrize("minutes", [30, 60])
def test_a_short_period_detects_an_outage_within_tens_of_seconds(
    percent: float, minutes: int
) -> None:
    window = timedelta(minutes=minutes)

    assert time_to_page(percent / 100, window, 5 * 3600) <= timedelta(seconds=60)


@given(
    st.floats(0.01, 0.9999),
    st.integers(1, 366 * 24 * 60).map(lambda minutes: timedelta(minutes=minutes)),
)
def test_every_derived_tier_can_fire_and_none_alerts_within_budget(
    objective: float, window: timedelta
) -> None:
    for tier in derive(objective, window):
        assert can_fire(tier.factor, objective)
        assert tier.factor >= 1
        assert timedelta(seconds=10) <= tier.short < tier.long <= window


@given(st.floats(0.01, 0.9999), st.sampled_from([timedelta(hours=1), timedelta(days=7), MONTH]))
def test_longer_windows_ask_for_less(objective: float, window: timedelta) -> None:
    tiers = derive(objective, window)

    for faster, slower in pairwise(tiers):
        assert faster.long <= slower.long
        assert faster.factor >= slower.factor


def test_the_classic_tiers_are_kept_where_the_objective_leaves_room() -> None:
    classic = [tier.factor for tier in derive(0.999, MONTH) if tier.name != "outage"]

    assert classic == [14.4, 6, 3, 1]


def test_a_factor_that_a_total_outage_cannot_reach_is_known_as_such() -> None:
    assert max_burn(0.9) == 10
    assert not can_fire(14.4, 0.9)
    assert not can_fire(10, 0.9)
    assert can_fire(9.9, 0.9)


TIER = Tier("fast", "page", 10, timedelta(hours=1), timedelta(minutes=5), min_bad=5)


def test_a_handful_of_bad_requests_of_a_quiet_tenant_does_not_page() -> None:
    counts = {TIER.long: Count(1, 4), TIER.short: Count(0, 1)}

    verdict = judge(TIER, counts, 0.99)

    assert verdict.long_burn == 80
    assert not verdict.burning
    assert judge(TIER, counts | {TIER.long: Count(1, 5)}, 0.99).burning


@pytest.mark.parametrize("per_hour", [1, 5, 10, 30])
def test_a_total_outage_of_a_quiet_tenant_pages_by_the_fifth_failed_request(
    per_hour: int,
) -> None:
    tiers = derive(0.99, MONTH)
    gap = timedelta(hours=1) / per_hour
    counts = {}
    for length in {length for tier in tiers for length in (tier.long, tier.short)}:
        bad = min(5, int(length / gap) + 1)  # the newest of five failures was just now
        counts[length] = Count(max(0, int(length / gap) - bad), bad)

    assert any(judge(tier, counts, 0.99).burning for tier in tiers if tier.severity == "page")


def test_a_burn_that_is_over_does_not_page_any_more() -> None:
    counts = {TIER.long: Count(500, 500), TIER.short: Count(100, 0)}

    assert not judge(TIER, counts, 0.99).burning


def test_a_dense_service_that_fell_silent_does_not_burn() -> None:
    verdict = judge(TIER, {TIER.long: Count(0, 900)}, 0.99)

    assert verdict.short_burn is None
    assert not verdict.burning
