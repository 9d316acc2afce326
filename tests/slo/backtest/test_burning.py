"""The vectorised judgement equals the live rule at every instant, and keeps its laws."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo.backtest import runs
from slo.backtest.burning import Watch, long_burns
from slo.backtest.cells import BAD, EXCLUDED, GOOD, Cells, Evaluations, Grid, Ints, count_cells
from slo.backtest.heard import NO_SILENCE
from slo.backtest.history import grid_for
from slo.budget import Count
from slo.burn import burn_rate, judge
from slo.evaluator import windows_of
from slo.guard import RUN_REACH
from slo.model import Slo
from slo.parse import parse_clauses
from slo.tiers import Tier, derive

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
WINDOW = timedelta(minutes=20)
STEP_NS = 10_000_000_000

Requests = list[tuple[int, int]]  # second of the start, what it is


def slo_of(objective: float, tiers: tuple[Tier, ...] | None = None) -> Slo:
    return Slo(
        "s", objective, WINDOW, parse_clauses("outcome = 'good'"),
        derive(objective, WINDOW) if tiers is None else tiers,
    )  # fmt: skip


def cells_of(requests: Requests, grid: Grid) -> Cells:
    at = np.array([second * 1_000_000_000 for second, _ in requests], np.int64)
    return count_cells(at, np.array([kind for _, kind in requests], np.uint8), grid)


@st.composite
def requests(draw: st.DrawFn) -> Requests:
    """Stretches of traffic with their own rate and share of failures."""
    out: Requests = []
    at = 1_000_000
    for _ in range(draw(st.integers(1, 5))):
        gap, share = draw(st.integers(1, 40)), draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
        dice = draw(st.randoms(use_true_random=False))
        at += draw(st.integers(0, 400))
        for _ in range(draw(st.integers(1, 40))):
            at += dice.randint(0, gap)
            kind = EXCLUDED if dice.random() < 0.05 else BAD if dice.random() < share else GOOD
            out.append((at, kind))
    return out


def expected(slo: Slo, tier: Tier, made: Requests, now: int) -> bool:
    """Ask the live rule, with counts made one request at a time."""

    def count(length: timedelta) -> Count:
        first = now - length.total_seconds()
        kinds = [kind for at, kind in made if first < at <= now]
        return Count(kinds.count(GOOD), kinds.count(BAD))

    reach = min(RUN_REACH, slo.window).total_seconds()
    inside = [(at, kind) for at, kind in made if now - reach < at <= now]
    last_good = max((at for at, kind in inside if kind == GOOD), default=0)
    run = sum(at > last_good for at, kind in inside if kind == BAD)
    return judge(
        tier, {each: count(each) for each in windows_of(slo)}, slo.objective, run=run
    ).burning


@settings(max_examples=15, deadline=None)
@given(made=requests(), objective=st.sampled_from([0.9, 0.95, 0.99]))
def test_a_tier_burns_at_exactly_the_instants_of_the_live_rule(
    made: Requests, objective: float
) -> None:
    slo = slo_of(objective)
    grid = grid_for([slo], 10 * SECOND)
    first, end = made[0][0] // 10, made[-1][0] // 10 + 40
    watch = Watch(slo, cells_of(made, grid), grid, Evaluations(first, end), NO_SILENCE)

    for tier in slo.tiers:
        found = watch.burning(tier)
        got = runs.points_of(found.runs).tolist() if found.runs.size else []
        now = [q for q in range(first, end) if expected(slo, tier, made, q * 10)]
        assert got == now
        assert not found.unknown.size


@settings(max_examples=10, deadline=None)
@given(made=requests(), more=st.integers(0, 10_000))
def test_a_request_that_fails_in_place_of_a_good_one_never_lowers_a_burn(
    made: Requests, more: int
) -> None:
    grid = grid_for([slo_of(0.9)], 10 * SECOND)
    tier = Tier("t", "page", 2, 5 * MINUTE, MINUTE, 1)
    at = more % len(made)
    worse = [(s, BAD if n == at and kind == GOOD else kind) for n, (s, kind) in enumerate(made)]
    span = Evaluations(made[0][0] // 10, made[-1][0] // 10 + 40)

    before, after = (set(points(cells_of(each, grid), tier, grid, span)) for each in (made, worse))

    assert before <= after


def points(cells: Cells, tier: Tier, grid: Grid, span: Evaluations) -> list[int]:
    found = long_burns(cells, tier, 0.9, grid, span)
    return runs.points_of(found).tolist() if found.size else []


@settings(max_examples=10, deadline=None)
@given(made=requests(), pair=st.sampled_from([(0.9, 0.95), (0.95, 0.99), (0.9, 0.999)]))
def test_a_higher_target_never_pages_later_with_derived_tiers(
    made: Requests, pair: tuple[float, float]
) -> None:
    span = Evaluations(made[0][0] // 10, made[-1][0] // 10 + 40)

    low, high = (first_page(made, objective, span) for objective in pair)

    assert low is None or (high is not None and high <= low)


def first_page(made: Requests, objective: float, span: Evaluations) -> int | None:
    slo = slo_of(objective)
    grid = grid_for([slo], 10 * SECOND)
    watch = Watch(slo, cells_of(made, grid), grid, span, NO_SILENCE)
    found = [watch.burning(tier).runs for tier in slo.tiers if tier.severity == "page"]
    return min((int(each[0, 0]) for each in found if each.size), default=None)


def test_a_step_that_no_window_divides_is_judged_on_smaller_cells() -> None:
    slo = slo_of(0.9, (Tier("t", "page", 2, MINUTE, 20 * SECOND, 2),))
    made = [(1_000_000 + n, BAD if 30 <= n < 80 else GOOD) for n in range(200)]
    grid = grid_for([slo], 7 * SECOND)
    span = Evaluations(1_000_000 // 7 + 1, 1_000_300 // 7)
    watch = Watch(slo, cells_of(made, grid), grid, span, NO_SILENCE)

    got = runs.points_of(watch.burning(slo.tiers[0]).runs).tolist()

    assert grid.every == 7
    assert got
    assert got == [
        q for q in range(span.first, span.end) if expected(slo, slo.tiers[0], made, q * 7)
    ]


@pytest.mark.parametrize(
    ("intervals", "joined"),
    [
        ([(0, 2), (2, 4)], [(0, 4)]),
        ([(0, 9), (1, 2), (3, 5)], [(0, 9)]),
        ([(0, 1), (3, 3), (5, 6)], [(0, 1), (5, 6)]),
        ([], []),
    ],
)
def test_runs_that_touch_are_one(
    intervals: list[tuple[int, int]], joined: list[tuple[int, int]]
) -> None:
    rows: Ints = np.array(intervals, np.int64).reshape(-1, 2)

    assert runs.joined(rows[:, 0], rows[:, 1]).tolist() == [list(each) for each in joined]


def test_a_burn_without_traffic_is_none_and_reaches_no_factor() -> None:
    assert burn_rate(Count(), 0.9) is None
    slo = replace(slo_of(0.9), tiers=(Tier("t", "page", 0.001, MINUTE, 20 * SECOND, 1),))
    grid = grid_for([slo], 10 * SECOND)
    span = Evaluations(100_000, 100_020)
    watch = Watch(slo, cells_of([(1_000_000, GOOD)], grid), grid, span, NO_SILENCE)

    assert not watch.burning(slo.tiers[0]).runs.size
