"""Charts are drawn from frames alone: gaps stay gaps, events are marked, units are named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cost.read import Window
from dashboards import budget_figure, figures
from dashboards.budgets import BudgetPoint, burndown
from dashboards.control import AlertView, LeaseView
from dashboards.figures import Band
from slo.series import Series

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
WINDOW = Window(NOW - timedelta(hours=1), NOW)


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def traffic_frame() -> pd.DataFrame:
    index = pd.date_range(WINDOW.start, periods=4, freq="15min")
    columns = ("good", "bad", "excluded", "tokens", "ttft_p50", "ttft_p95", "ttft_p99")
    frame = pd.DataFrame({name: [1.0, 2.0, np.nan, 4.0] for name in columns}, index=index)
    return frame.rename_axis("at")


def an_alert(minutes: int, until: int | None = None, **more: Any) -> AlertView:
    return AlertView(
        name="chat-ttft",
        slo="chat-ttft",
        group={"tenant": "acme"},
        severity="page",
        state=more.pop("state", "firing"),
        since=NOW - timedelta(minutes=minutes),
        until=None if until is None else NOW - timedelta(minutes=until),
    )


def a_lease(minutes: int, kind: str = "shed") -> LeaseView:
    return LeaseView(
        id="1",
        kind=kind,
        target="gateway/demo",
        action="shed 90 %",
        reason="",
        state="applied",
        created_at=NOW - timedelta(minutes=minutes),
    )


def test_good_bad_and_excluded_keep_their_colours() -> None:
    chart = figures.traffic(traffic_frame(), WINDOW)

    assert {series.name: series.colour for series in chart.series} == {
        "good": "good",
        "excluded": "excluded",
        "bad": "bad",
    }


def test_a_step_without_data_is_a_gap() -> None:
    chart = figures.latency(traffic_frame(), WINDOW)

    assert [series.y[2] for series in chart.series] == [None, None, None]
    assert len(chart.at) == len(chart.series[0].y) == 4


def test_an_alert_that_still_fires_reaches_the_right_edge() -> None:
    chart = figures.traffic(traffic_frame(), WINDOW, [an_alert(minutes=20)])

    assert chart.bands == (Band(ms(NOW - timedelta(minutes=20)), ms(NOW)),)


def test_two_alerts_at_once_are_one_band() -> None:
    alerts = [an_alert(minutes=30, until=10), an_alert(minutes=20, until=5), an_alert(2)]

    chart = figures.traffic(traffic_frame(), WINDOW, alerts)

    assert [(ms(NOW) - band.start) / 60_000 for band in chart.bands] == [30, 2]
    assert [(ms(NOW) - band.end) / 60_000 for band in chart.bands] == [5, 0]


def test_what_lies_outside_the_range_is_not_drawn() -> None:
    events = [an_alert(minutes=600, until=500), a_lease(minutes=90), an_alert(5, state="pending")]

    chart = figures.traffic(traffic_frame(), WINDOW, events)

    assert (chart.bands, chart.marks) == ((), ())


def test_acts_too_close_to_read_are_named_together() -> None:
    events = [a_lease(minutes=5), a_lease(minutes=4, kind="scale"), a_lease(minutes=40, kind="cap")]

    chart = figures.traffic(traffic_frame(), WINDOW, events)

    assert [mark.words for mark in chart.marks] == ["cap", "shed, scale", ""]


def test_spend_puts_idle_on_top_in_its_own_colour() -> None:
    index = pd.date_range(WINDOW.start, periods=2, freq="1h")
    frame = pd.DataFrame({"acme": [1.0, 2.0], "overhead": [0.5, 0.5], "idle": [9.0, 8.0]}, index)

    chart = figures.spend(frame, WINDOW, step_hours=1)

    assert [(s.name, s.colour) for s in chart.series] == [
        ("acme", "series-1"),
        ("overhead", "overhead"),
        ("idle", "idle"),
    ]
    assert chart.step == 3_600_000


def test_the_burn_down_ends_at_the_verdicts_own_number() -> None:
    import seeding

    verdict = seeding.verdicts(NOW)[2]
    series = Series(
        group={"tenant": "acme"},
        at=[NOW - timedelta(days=20), NOW - timedelta(days=1)],
        good=[100, 100],
        bad=[300, 900],
        excluded=[0, 0],
    )

    points = burndown(verdict, series)

    allowed = verdict.total * 0.05
    assert [p.remaining for p in points] == pytest.approx(
        [1.0, 1 - 300 / allowed, 1 - 1200 / allowed, verdict.budget_remaining]
    )
    chart = budget_figure.burndown(points, verdict)
    assert verdict.budget_remaining is not None
    assert chart.series[0].y[-1] == pytest.approx(verdict.budget_remaining * 100)
    assert chart.guide == ((chart.start, 100.0), (chart.end, 0.0))


def test_without_a_judged_request_there_is_no_burn_down() -> None:
    import seeding

    verdict = seeding._verdict(NOW, "s", "", 0.9, 0, 0, None, seeding.State.NO_TRAFFIC, (None,) * 4)

    assert burndown(verdict, Series(group={})) == ()


def test_an_overspent_budget_is_drawn_as_bad() -> None:
    import seeding

    verdict = seeding.verdicts(NOW)[1]
    points = (BudgetPoint(NOW - timedelta(days=1), 1.0), BudgetPoint(NOW, -0.7))

    assert budget_figure.burndown(points, verdict).series[0].colour == "bad"


def test_an_empty_chart_says_why() -> None:
    chart = figures.empty("Traffic", "No source reported")

    assert chart.empty == "No source reported"
    assert chart.series == ()


def test_a_chart_is_plain_json_whatever_the_numbers_are() -> None:
    frame = traffic_frame()
    frame.loc[frame.index[0], "good"] = np.inf
    frame.loc[frame.index[1], "good"] = 1.23456789e-7

    chart = json.loads(figures.traffic(frame, WINDOW).json())

    assert chart["series"][0]["y"] == [None, 1.2346e-07, None, 4.0]
    assert chart["at"][0] == chart["start"] == ms(WINDOW.start)
