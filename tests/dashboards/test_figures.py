"""Charts are drawn from frames alone: gaps stay gaps, events are marked, units are named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cost.read import Window
from dashboards import figures
from dashboards.budgets import BudgetPoint, burndown
from dashboards.control import AlertView, LeaseView
from dashboards.theme import DARK, LIGHT, Palette
from slo.series import Series

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
WINDOW = Window(NOW - timedelta(hours=1), NOW)


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


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_good_bad_and_excluded_keep_their_colours(colours: Palette) -> None:
    figure = figures.traffic(traffic_frame(), WINDOW, colours)

    lines = {trace.name: trace.line.color for trace in figure.data}
    assert lines == {"good": colours.good, "excluded": colours.excluded, "bad": colours.bad}


def test_a_step_without_data_is_a_gap() -> None:
    figure = figures.latency(traffic_frame(), WINDOW, LIGHT)

    assert all(np.isnan(trace.y[2]) for trace in figure.data)
    assert not any(trace.connectgaps for trace in figure.data)


def test_an_alert_that_still_fires_reaches_the_right_edge() -> None:
    figure = figures.traffic(traffic_frame(), WINDOW, LIGHT, [an_alert(minutes=20)])

    band = figure.layout.shapes[0]
    assert (band.x0, band.x1) == (NOW - timedelta(minutes=20), NOW)


def test_what_lies_outside_the_range_is_not_drawn() -> None:
    events = [an_alert(minutes=600, until=500), a_lease(minutes=90), an_alert(5, state="pending")]

    assert figures.traffic(traffic_frame(), WINDOW, LIGHT, events).layout.shapes == ()


def test_acts_too_close_to_read_are_named_together() -> None:
    events = [a_lease(minutes=5), a_lease(minutes=4, kind="scale"), a_lease(minutes=40, kind="cap")]

    figure = figures.traffic(traffic_frame(), WINDOW, LIGHT, events)

    assert [note.text for note in figure.layout.annotations] == ["cap", "shed, scale"]
    assert len(figure.layout.shapes) == 3


def test_spend_puts_idle_on_top_in_its_own_colour() -> None:
    index = pd.date_range(WINDOW.start, periods=2, freq="1h")
    frame = pd.DataFrame({"acme": [1.0, 2.0], "overhead": [0.5, 0.5], "idle": [9.0, 8.0]}, index)

    figure = figures.spend(frame, WINDOW, LIGHT, step_hours=1)

    assert [trace.name for trace in figure.data] == ["acme", "overhead", "idle"]
    assert figure.data[2].marker.color == figures.faded(LIGHT.idle, 0.85)
    assert figure.data[0].width == 3_600_000


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
    figure = figures.burndown(points, verdict, LIGHT)
    assert list(figure.data[1].y)[-1] == pytest.approx(verdict.budget_remaining * 100)


def test_without_a_judged_request_there_is_no_burn_down() -> None:
    import seeding

    verdict = seeding._verdict(NOW, "s", "", 0.9, 0, 0, None, seeding.State.NO_TRAFFIC, (None,) * 4)

    assert burndown(verdict, Series(group={})) == ()


def test_an_overspent_budget_is_drawn_as_bad() -> None:
    import seeding

    verdict = seeding.verdicts(NOW)[1]
    points = (BudgetPoint(NOW - timedelta(days=1), 1.0), BudgetPoint(NOW, -0.7))

    assert figures.burndown(points, verdict, DARK).data[1].line.color == DARK.bad


def test_an_empty_chart_says_why() -> None:
    figure = figures.empty(LIGHT, "No source reported")

    assert figure.layout.annotations[0].text == "No source reported"
    assert figure.data == ()
