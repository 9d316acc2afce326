"""The guard where requests weigh differently: laws, and the bound held against chance itself."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo.burn import Judged, judge_many
from slo.guard import Behind, Ints, Tally, told_by
from slo.tiers import Tier

LONG, SHORT = timedelta(hours=1), timedelta(minutes=5)
TIER = Tier("t", "page", 2.0, LONG, SHORT)
WINDOWS = (SHORT, timedelta(minutes=30), LONG, timedelta(days=1))
Window = list[tuple[int, int]]  # weight, and whether it is bad, of each request


def tally(window: Window, times: int = 1) -> Tally:
    weights, bad = np.array(window, np.int64).reshape(-1, 2).T
    squares = np.array([(weights.astype(float) ** 2).sum() * times**2])
    behind = Behind(one(len(window)), one(bad.sum()), one(max(weights, default=0) * times), squares)
    return Tally(one((weights * bad).sum() * times), one(weights.sum() * times), behind)


def one(number: int) -> Ints:
    return np.array([number], np.int64)


def plain(window: Window) -> Tally:
    return Tally(one(sum(bad for _, bad in window)), one(len(window)))


def judged(windows: dict[timedelta, Tally], run: int) -> Judged:
    return judge_many(TIER, 0.9, windows, one(run))


def as_lists(found: Judged) -> list[list[float]]:
    parts = (found.burning, found.known, found.long_burn, found.short_burn)
    return [np.nan_to_num(part, nan=-1).tolist() for part in parts]


requests = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 1)), max_size=60)
nested = st.lists(requests, min_size=len(WINDOWS), max_size=len(WINDOWS))


@settings(deadline=None)
@given(nested, st.integers(0, 60))
def test_requests_of_weight_one_are_judged_as_requests(made: list[Window], run: int) -> None:
    alike = [[(1, bad) for _, bad in window] for window in made]

    weighed = judged(dict(zip(WINDOWS, map(tally, alike), strict=True)), run)
    counted = judged(dict(zip(WINDOWS, map(plain, alike), strict=True)), run)

    assert as_lists(weighed) == as_lists(counted)


@settings(deadline=None)
@given(nested, st.integers(0, 60), st.integers(2, 1000))
def test_the_unit_of_weights_changes_nothing(made: list[Window], run: int, times: int) -> None:
    # A heaviest of zero counts as one, which no factor changes: a window that weighs nothing.
    once = {length: tally(window) for length, window in zip(WINDOWS, made, strict=True)}
    more = {length: tally(window, times) for length, window in zip(WINDOWS, made, strict=True)}

    assert as_lists(judged(once, run)) == as_lists(judged(more, run))


@pytest.mark.parametrize("objective", [0.9, 0.99])
@pytest.mark.parametrize("tail", [0.8, 1.5, 5.0])
def test_chance_shows_that_much_evidence_no_more_often_than_the_bound_says(
    objective: float, tail: float
) -> None:
    rng = np.random.default_rng(7)
    times, healthy = 40_000, (1 - objective) / 2
    weights = np.ceil(rng.pareto(tail, 80) * 100 + 1).astype(np.int64)
    weights[:40] *= 3  # answers of two parts, of which one may be bad alone
    bad = weights * (rng.random((times, 80)) < healthy)
    part = rng.integers(1, 3, (times, 40))
    bad[:, :40] = weights[:40] // 3 * part * (rng.random((times, 40)) < healthy)
    squares = np.array([float((weights**2).sum())])
    behind = Behind(one(80), one(0), one(int(weights.max())), squares)

    told = told_by(Tally(bad.sum(axis=1), one(int(weights.sum())), behind), objective)

    for nats in (0.5, 1.0, 2.0, 3.0, 5.0):
        chance = np.exp(-nats)
        assert np.mean(told >= nats) <= chance + 4 * np.sqrt(chance / times)


def test_one_heavy_failure_is_bad_luck_and_many_light_ones_are_not() -> None:
    light: Window = [(10, 0)] * 200
    heavy = tally([*light, (100_000, 1), *[(10, 1)] * 5])
    many = tally([*light, *[(10, 1)] * 100])

    assert not judged(dict.fromkeys(WINDOWS, heavy), 0).burning[0]
    assert judged(dict.fromkeys(WINDOWS, many), 0).burning[0]


def test_failures_that_weigh_nothing_burn_by_their_run_when_nothing_else_came() -> None:
    nothing = tally([(0, 1)] * 40)
    busy = tally([(500, 0)] * 100_000)
    windows = dict.fromkeys(WINDOWS, nothing) | {WINDOWS[-1]: busy}

    assert judged(windows, 40).burning[0]
    assert not judged(windows | {LONG: busy}, 40).burning[0]
