from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.clock import ManualClock
from slo.budget import Count
from slo.counts import SloCounts
from slo.evaluator import Evaluator
from slo.forecast import EXHAUSTED, Forecast, Past, forecast
from slo.levels import present_levels
from slo.model import Slo
from slo.outlook import MOST_AT_ONCE, Outlook, lookback_of, past_of, step_of
from slo.parse import parse_clauses
from slo.series import Series, read_series
from slo.settings import SloSettings
from slo.tiers import derive
from slo.verdict import Verdict
from store.engine import Engine
from tests.slo.made_facts import EPOCH, alive, fact, put

HOUR, DAY, MONTH = timedelta(hours=1), timedelta(days=1), timedelta(days=30)
HOURS = 31 * 24


def asked(
    bad: Sequence[int] | np.ndarray, total: Sequence[int] | np.ndarray, objective: float = 0.9
) -> tuple[Forecast | None, datetime]:
    """Ask at the start of the hour after the last of these."""
    failed = np.append(np.asarray(bad, np.int64), 0)
    judged = np.append(np.asarray(total, np.int64), 0)
    past = Past(HOUR, judged - failed, failed)
    count = Count(int((judged - failed)[-721:].sum()), int(failed[-721:].sum()))
    now = EPOCH + HOUR * len(bad)
    return forecast(past, now, count, objective, MONTH), now


def hours(of: datetime | None, now: datetime) -> float:
    assert of is not None
    return (of - now) / HOUR


def test_a_budget_that_is_spent_is_exhausted_and_not_some_time_from_now() -> None:
    found, _ = asked([1] * HOURS, [9] * HOURS)

    assert found == EXHAUSTED == Forecast(None, None, None, "exhausted")


def test_without_data_nothing_is_foreseen() -> None:
    found, _ = asked([0] * HOURS, [0] * HOURS)

    assert found is None


def test_a_steady_service_within_its_budget_keeps_it() -> None:
    found, _ = asked([30] * HOURS, [1000] * HOURS)

    assert found == Forecast(None, None, None, "not within 30d")


def test_the_pace_of_an_incident_is_taken_to_go_on() -> None:
    """5 % of 10 % for a month, then 40 %: spent when (720 - t) x 5 % + t x 40 % is 720 x 10 %."""
    calm, incident = 720 * 1000, 48
    bad = [50] * (HOURS - incident) + [400] * incident

    found, now = asked(bad, [1000] * HOURS)

    assert found is not None
    exact = (calm * 0.1 - calm * 0.05) / (400 - 50) - incident
    assert hours(found.at, now) == pytest.approx(exact, rel=0.15)
    assert hours(found.earliest, now) <= exact <= hours(found.latest, now)


def test_what_rolls_out_of_the_window_is_known_beforehand() -> None:
    incident = np.full(HOURS, 60)
    incident[HOURS - 720 + 5 : HOURS - 720 + 30] = 1000  # leaves within the next 30 hours
    early, late = incident.copy(), np.roll(incident, 600)  # the same incident, not long ago
    after = np.where(np.arange(HOURS) >= HOURS - 30, 120, 0)

    soon, _ = asked(early + after, [1000] * HOURS)
    stays, now = asked(late + after, [1000] * HOURS)

    assert soon is not None
    assert stays is not None
    assert hours(stays.at, now) < 200
    assert soon.at is None or soon.at > stays.at  # type: ignore[operator]


def test_failures_that_come_by_day_are_not_foreseen_by_night() -> None:
    of_day = np.arange(HOURS) % 24
    by_day = (of_day >= 8) & (of_day < 20)
    total = np.full(HOURS, 1000)
    rise = np.arange(HOURS) >= HOURS - 48
    bad = np.where(by_day, np.where(rise, 500, 100), 0)

    found, now = asked(bad, total)  # asked at midnight; the budget is nearly spent

    assert found is not None
    assert found.at is not None
    at = found.at.hour
    assert 8 <= at < 20, (found.says, at)
    assert hours(found.earliest, now) >= 7.5


def test_a_weekend_without_traffic_is_waited_for() -> None:
    at = np.arange(HOURS - 4 * 24)  # ends on the eve of a Saturday, the fifth day of each week
    day = at // 24 % 7
    total = np.where(day >= 5, 0, 1000)
    total = total[: (at.size // 168) * 168 - 48]
    bad = np.where(np.arange(total.size) >= total.size - 24, total * 6 // 10, total // 25)

    found, now = asked(bad, total)

    assert found is not None
    assert found.at is not None
    assert hours(found.at, now) >= 47


def test_the_same_question_has_the_same_answer() -> None:
    rng = np.random.default_rng(3)
    total = rng.poisson(200, HOURS)
    bad = rng.binomial(total, 0.09)

    assert asked(bad, total) == asked(bad, total)


@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(1, 800),
    objective=st.sampled_from([0.5, 0.9, 0.99, 0.999]),
    per_hour=st.sampled_from([0.01, 1.0, 1000.0]),
    factor=st.floats(0, 3),
)
@settings(deadline=None)
def test_any_past_has_an_answer_in_order(
    seed: int, length: int, objective: float, per_hour: float, factor: float
) -> None:
    rng = np.random.default_rng(seed)
    total = rng.poisson(per_hour, length)
    bad = rng.binomial(total, min(1, (1 - objective) * factor))

    found, now = asked(bad, total, objective)

    if found is None:
        assert not total[-720:].sum()
        return
    ends = [each for each in (found.earliest, found.at, found.latest) if each is not None]
    assert ends == sorted(ends)
    assert all(now <= each <= now + MONTH + HOUR for each in ends)
    assert (found.says == "exhausted") == (
        bad[-720:].sum() >= round(1 - objective, 12) * total[-720:].sum()
    )
    assert found.latest is None or found.at is not None
    assert found.at is None or found.earliest is not None


def test_four_in_five_intervals_hold_what_happens() -> None:
    rng = np.random.default_rng(11)
    held = []
    while len(held) < 80:
        of_day = np.arange(65 * 24) % 24
        total = rng.poisson(500 * (1 + 0.6 * np.sin(2 * np.pi * of_day / 24)))
        day = np.exp(rng.normal(0, 0.1, 65))[np.arange(total.size) // 24]
        rise = int(rng.integers(720, 800))
        share = 0.03 * day * np.where(np.arange(total.size) >= rise, rng.uniform(3, 12), 1)
        bad = rng.binomial(total, np.minimum(share, 1))
        now_at = rise + 24
        sums = [np.concatenate(([0], np.cumsum(each))) for each in (bad, total)]
        ends = np.arange(720, total.size + 1)
        failed, judged = (each[ends] - each[ends - 720] for each in sums)
        spent = np.flatnonzero((failed >= 0.1 * judged) & (ends > now_at))
        found, now = asked(bad[:now_at], total[:now_at])
        if found is None or found is EXHAUSTED or not spent.size:
            continue
        truth = float(ends[spent[0]] - now_at) - 0.5
        low, high = (
            720.0 if each is None else (each - now) / HOUR
            for each in (found.earliest, found.latest)
        )
        held.append(low - 0.5 <= truth <= high + 0.5)

    assert np.mean(held) >= 0.75


def test_a_rise_that_is_plain_is_certain_and_one_that_is_not_has_a_chance() -> None:
    expected = np.full(480, 100.0)
    plain, faint = np.full(480, 100), np.full(480, 100)
    plain[-6:], faint[-2:] = 500, 150

    (now, *_), maybe = (
        present_levels(plain, expected, 24).levels,
        present_levels(faint, expected, 24),
    )

    assert now.value == pytest.approx(5, rel=0.05)
    assert sum(each.chance for each in maybe.levels) == pytest.approx(1)
    assert len(maybe.levels) == 2


@pytest.mark.parametrize(
    ("window", "step"),
    [
        (timedelta(minutes=30), timedelta(seconds=10)),
        (timedelta(hours=12), timedelta(minutes=1)),
        (DAY, timedelta(minutes=10)),
        (MONTH, HOUR),
        (timedelta(days=366), 6 * HOUR),
    ],
)
def test_a_forecast_counts_as_finely_as_its_window_deserves(
    window: timedelta, step: timedelta
) -> None:
    assert step_of(window) == step
    assert window < lookback_of(window) <= 5000 * step


def test_a_series_is_laid_out_up_to_the_step_that_holds_now() -> None:
    series = Series({}, [EPOCH, EPOCH + 3 * HOUR], [5, 7], [1, 2], [0, 0])

    past = past_of(series, EPOCH - HOUR, EPOCH + 3.5 * HOUR, HOUR)

    assert past.good.tolist() == [0, 5, 0, 0, 7]
    assert past.bad.tolist() == [0, 1, 0, 0, 2]


SLO = Slo(
    "availability", 0.9, DAY, parse_clauses("outcome = 'good'"), derive(0.9, DAY), None, ("tenant",)
)
NOW = EPOCH + DAY


def stored(engine: Engine, tenants: int = 1) -> None:
    minute = timedelta(minutes=1)
    alive(engine, [NOW - minute * number for number in range(1440)])
    facts = [
        fact(NOW - 2 * minute * n, tenant * 1000 + n, tenant=f"t{tenant:03}")
        for tenant in range(tenants)
        for n in range(720 if tenants == 1 else 20)
    ]
    failing = 25 if tenants == 1 else 1
    facts += [
        fact(
            NOW - 3 * minute * n - minute / 2, 500_000 + tenant * 1000 + n, outcome="bad",
            tenant=f"t{tenant:03}",
        )
        for tenant in range(tenants)
        for n in range(failing)
    ]  # fmt: skip
    put(engine, facts)
    SloCounts(engine, [SLO], SloSettings(), ManualClock(NOW)).ensure()


def test_a_verdict_says_when_its_budget_ends(engine: Engine) -> None:
    stored(engine)

    (verdict,) = Evaluator(engine, [SLO], SloSettings()).evaluate(NOW)

    assert verdict.forecast is not None
    assert verdict.forecast.at is not None
    assert verdict.expires_in == verdict.forecast.at - NOW
    assert verdict.forecast.says.startswith("in about ")


def test_a_series_can_be_read_for_some_groups(engine: Engine) -> None:
    stored(engine, 5)

    def tenants(*wanted: str) -> list[str]:
        groups = [(name,) for name in wanted]
        found = read_series(engine, SLO, EPOCH, NOW + HOUR, HOUR, groups=groups)
        return [each.group["tenant"] for each in found]

    assert tenants("t001", "t003", "x'") == ["t001", "t003"]
    assert tenants("t002") == ["t002"]
    assert tenants() == []
    parent = replace(SLO, group_by=())
    SloCounts(engine, [parent], SloSettings(), ManualClock(NOW)).ensure()
    (whole,) = read_series(engine, parent, EPOCH, NOW + HOUR, HOUR, groups=[()])
    assert sum(whole.bad) == 5


def test_forecasts_are_kept_and_made_for_the_most_urgent(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = MOST_AT_ONCE + 10
    stored(engine, tenants)
    reads: list[int] = []

    def counted(*args: object, **kwargs: object) -> list[Series]:
        reads.append(1)
        return read_series(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr("slo.outlook.read_series", counted)
    evaluator = Evaluator(engine, [SLO], SloSettings())

    def foreseen(now: datetime) -> list[Verdict]:
        return [each for each in evaluator.evaluate(now) if each.forecast is not None]

    assert len(foreseen(NOW)) == MOST_AT_ONCE
    assert len(foreseen(NOW + timedelta(seconds=5))) == MOST_AT_ONCE
    assert len(reads) == 1
    foreseen(NOW - timedelta(seconds=10))
    assert len(reads) == 2
    foreseen(NOW + timedelta(minutes=6))
    assert len(reads) == 3


def test_nothing_is_read_for_groups_that_spend_nothing(engine: Engine) -> None:
    outlook = Outlook(engine)

    assert outlook.foresee(SLO, [], NOW) == []
