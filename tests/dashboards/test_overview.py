"""The overview says what is missing before anybody asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from base.clock import ManualClock
from cost.read import Window
from dashboards.pages.overview import PARTS as SHOWN
from dashboards.pages.overview import notice, tiles
from dashboards.queries import Heartbeat, read_traffic

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PARTS = [part.split(".") for part in (*SHOWN, "overview-seen.data")]

MINUTE = timedelta(minutes=1)


def a_beat(name: str, silent_for: timedelta) -> Heartbeat:
    return Heartbeat("engine", name, NOW - silent_for)


def test_sources_that_are_heard_need_no_notice() -> None:
    assert notice(NOW - MINUTE / 3, [a_beat("r0", MINUTE / 3)], NOW) is None


def test_a_source_that_fell_silent_is_named() -> None:
    beats = [a_beat("r0", MINUTE / 3), a_beat("r1", 12 * MINUTE)]

    said = str(notice(NOW - MINUTE / 3, beats, NOW))

    assert "1 of 2 sources fell silent" in said
    assert "engine r1" in said


def test_a_replica_that_was_taken_away_long_ago_is_not_missed() -> None:
    beats = [a_beat("r0", MINUTE / 3), a_beat("r1", 300 * MINUTE)]

    assert notice(NOW - MINUTE / 3, beats, NOW) is None


def test_when_everything_is_silent_the_page_says_since_when_it_is_frozen() -> None:
    said = str(notice(NOW - 12 * MINUTE, [], NOW))

    assert "Nothing was heard for 12m" in said
    assert "frozen as of 11:48:00" in said


@pytest.fixture(scope="module")
def empty_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from instance import open_instance

    folder: Path = tmp_path_factory.mktemp("empty")
    app, deps, engine = open_instance(folder, ManualClock(NOW), requests=0)
    yield app, deps
    engine.close()
    deps.db.dispose()


def test_an_instance_without_data_says_how_to_begin(empty_site: Any) -> None:
    answer = TestClient(empty_site[0]).post(
        "/_dash-update-component",
        json={
            "output": "..{}..".format("...".join(f"{name}.{field}" for name, field in PARTS)),
            "outputs": [{"id": name, "property": field} for name, field in PARTS],
            "inputs": [
                {"id": "url", "property": "search", "value": ""},
                {"id": "tick", "property": "n_intervals", "value": 0},
            ],
            "state": [{"id": "overview-seen", "property": "data", "value": None}],
            "changedPropIds": ["url.search"],
        },
    )

    assert answer.status_code == 200
    assert "No telemetry yet" in answer.text
    assert "Nothing fires" in answer.text
    assert "NaN" not in answer.text


def test_without_requests_shares_and_quantiles_are_unknown(empty_site: Any) -> None:
    window = Window(NOW - timedelta(hours=1), NOW)
    traffic = read_traffic(empty_site[1].engine, window, {}, NOW)

    values = [part.children[1].children for part in tiles(traffic, [], [], window)]

    assert values == ["0", "–", "–", "0", "–", "0"]


def test_the_apis_of_an_empty_instance_are_empty_and_not_wrong(empty_site: Any) -> None:
    client = TestClient(empty_site[0])

    assert client.get("/api/v1/requests").json() == {"requests": [], "next_cursor": None}
    bill = client.get("/api/v1/cost").json()
    assert bill["rows"] == []
    assert bill["totals"]["cost_per_good_usd"] is None
