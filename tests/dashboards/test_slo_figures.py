"""The charts of the SLO page: what was spent, what is foreseen, what happened meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import seeding

from cost.read import Window
from dashboards.budget_figure import Edit, Happened, LeftOut, bad_share, outlook
from dashboards.budgets import BudgetPoint, allowed_of, spent
from dashboards.control import AlertView, LeaseView
from dashboards.figures import ms
from dashboards.stretches import chosen_stretch, stretches
from slo.forecast import EXHAUSTED, Forecast
from slo.series import Series
from slo.verdict import PeriodVerdict, Verdict

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MONTH = datetime(2026, 11, 1, tzinfo=UTC)


def a_verdict(**fields: Any) -> Verdict:
    return replace(seeding.verdicts(NOW)[3], **fields)  # chat-ttft of globex, 35 % left


def a_forecast(at: int | None, earliest: int | None, latest: int | None) -> Forecast:
    days = [None if each is None else NOW + each * DAY for each in (at, earliest, latest)]
    return Forecast(days[0], days[1], days[2], "in about 4d, 2d to 6d")


def a_period(zone: str = "UTC") -> PeriodVerdict:
    return PeriodVerdict("month", zone, MONTH, MONTH + 30 * DAY, 900, 20, 3, 0.978, 0.6)


POINTS = (BudgetPoint(NOW - 30 * DAY, 1.0), BudgetPoint(NOW, 0.35))


def test_the_forecast_is_drawn_on_from_what_is_left_now() -> None:
    verdict = a_verdict(forecast=a_forecast(4, 2, 6))

    chart = outlook(POINTS, verdict, stretches(verdict)[0], Happened())

    assert chart.outlook is not None
    assert chart.outlook.line == ((ms(NOW), 35.0), (ms(NOW + 4 * DAY), 0.0))
    assert [at for at, _ in chart.outlook.area] == [ms(NOW + n * DAY) for n in (0, 2, 6)]
    assert chart.end > ms(NOW + 6 * DAY)
    assert {mark.kind for mark in chart.marks} == {"now", "foreseen"}
    assert "in about 4d, 2d to 6d" in chart.says


def test_a_budget_that_may_last_has_an_area_that_stays_open() -> None:
    verdict = a_verdict(forecast=a_forecast(None, 5, None))

    chart = outlook(POINTS, verdict, stretches(verdict)[0], Happened())

    assert chart.outlook is not None
    assert chart.outlook.line == ()
    assert chart.outlook.area[-1][1] == 35.0


@pytest.mark.parametrize(
    "forecast", [None, EXHAUSTED, Forecast(None, None, None, "not within 30d")]
)
def test_where_nothing_is_foreseen_the_picture_ends_now(forecast: Forecast | None) -> None:
    verdict = a_verdict(forecast=forecast)

    chart = outlook(POINTS, verdict, stretches(verdict)[0], Happened())

    assert (chart.outlook, chart.end, chart.marks) == (None, ms(NOW), ())


def test_the_past_keeps_most_of_the_picture() -> None:
    verdict = a_verdict(forecast=a_forecast(25, 20, None))

    chart = outlook(POINTS, verdict, chosen_stretch(verdict, "24h"), Happened())

    assert chart.end - ms(NOW) == pytest.approx(0.6 * (ms(NOW) - chart.start))


def test_pages_exclusions_and_edits_are_marked_with_words() -> None:
    page = AlertView(
        "chat-ttft", "chat-ttft", {"tenant": "globex"}, "page", "resolved",
        NOW - 2 * DAY, NOW - 2 * DAY + HOUR,
    )  # fmt: skip
    act = LeaseView(
        "1", "shed", "gateway/demo", "shed 90 %", "", "applied", NOW - 3 * DAY, slo="chat-ttft"
    )
    seen = Happened(
        [page, replace(page, state="pending")],
        [act],
        [LeftOut(NOW - 40 * DAY, NOW - 29 * DAY, "left out: upgrade")],
        [Edit(NOW - DAY, "v2"), Edit(NOW - 99 * DAY, "v1")],
    )
    verdict = a_verdict()

    chart = outlook(POINTS, verdict, stretches(verdict)[0], seen)

    assert [(b.kind, b.words) for b in chart.bands] == [
        ("left-out", "left out: upgrade"),
        ("fired", "page for 1h"),
    ]
    assert chart.bands[0].start == chart.start
    assert [(m.kind, m.words) for m in chart.marks] == [("edit", "v2"), ("act", "shed")]
    assert "1 alert fired" in chart.says


def test_a_calendar_period_ends_when_its_budget_does_and_has_no_forecast() -> None:
    verdict = a_verdict(periods=(a_period(),), forecast=a_forecast(4, 2, 6))
    month = chosen_stretch(verdict, "month")

    chart = outlook(POINTS, verdict, month, Happened())

    assert (chart.start, chart.end) == (ms(MONTH), ms(MONTH + 30 * DAY))
    assert chart.guide == ((ms(MONTH), 100.0), (ms(MONTH + 30 * DAY), 0.0))
    assert chart.outlook is None


def test_what_can_be_shown_is_no_longer_than_the_window() -> None:
    month = a_verdict(periods=(a_period(), a_period("Asia/Tokyo")))
    hour = a_verdict(window=HOUR)

    assert [each.key for each in stretches(month)] == [
        "window", "month:UTC", "month:Asia/Tokyo", "7d", "24h", "6h", "1h",
    ]  # fmt: skip
    assert [each.label for each in stretches(hour)] == ["1h"]
    assert chosen_stretch(hour, "7d").key == "window"


def test_the_newest_hours_begin_with_what_was_left_then() -> None:
    verdict = a_verdict()
    allowed = allowed_of(verdict, verdict.total)
    counts = Series({"tenant": "globex"}, [NOW - HOUR, NOW - HOUR / 2], [9, 9], [40, 60], [0, 0])

    points = spent(chosen_stretch(verdict, "6h"), allowed, counts)

    assert verdict.budget_remaining is not None
    assert points[0].remaining == pytest.approx(verdict.budget_remaining + 100 / allowed)
    assert points[1].remaining == pytest.approx(verdict.budget_remaining + 60 / allowed)
    assert points[-1] == BudgetPoint(NOW, verdict.budget_remaining)


def test_the_bad_share_has_the_allowed_one_beside_it_and_no_zero_for_silence() -> None:
    counts = Series({}, [NOW - 2 * HOUR, NOW - HOUR], [90, 0], [10, 0], [0, 5])
    verdict = a_verdict()

    chart = bad_share(counts, Window(NOW - 6 * HOUR, NOW), HOUR, verdict, Happened())

    assert chart.series[0].y == (10.0, None)
    assert [value for _, value in chart.guide] == [5.0, 5.0]
    assert bad_share(None, Window(NOW - HOUR, NOW), HOUR, verdict, Happened()).empty
