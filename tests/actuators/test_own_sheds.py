"""Burn rates without our own refusals."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from snapshots import verdict
from world import START

from actuators.own_sheds import OwnSheds, Totals, remaining_part
from slo.verdict import Verdict


def at(seconds: int, good: int, bad: int, shed: int, burn: float = 50.0) -> Verdict:
    return replace(
        verdict(burn),
        at=START + timedelta(seconds=seconds),
        good=good,
        bad=bad,
        bad_reasons={"shed": shed},
    )


def test_a_burn_made_of_sheds_only_is_no_burn() -> None:
    judge = OwnSheds()
    judge.discount([at(0, 1000, 0, 0)])
    (seen,) = judge.discount([at(600, 1100, 100, 100)])

    assert seen.tiers[0].short_burn == 0.0
    assert not seen.tiers[0].burning


def test_what_is_bad_besides_the_sheds_still_burns() -> None:
    judge = OwnSheds()
    judge.discount([at(0, 1000, 0, 0)])
    (seen,) = judge.discount([at(600, 1050, 100, 50)])
    burn = seen.tiers[0].short_burn

    assert burn is not None
    # 50 of 100 requests that were let in are bad; with the sheds it was 100 of 150.
    assert abs(burn - 50.0 * (50 / 100) / (100 / 150)) < 1e-9
    assert seen.tiers[0].burning


def test_a_verdict_without_sheds_is_left_alone() -> None:
    untouched = at(0, 1000, 10, 0)

    assert OwnSheds().discount([untouched]) == (untouched,)


def test_counts_that_shrink_take_nothing_off() -> None:
    then, now = Totals(START, 1000, 100, 50), Totals(START, 900, 90, 60)

    assert remaining_part(then, now) == 1.0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_part_that_remains_is_a_fraction(good: int, bad: int, shed: int) -> None:
    now = Totals(START, good, bad, min(shed, bad))

    assert 0.0 <= remaining_part(Totals(START, 0, 0, 0), now) <= 1.0
