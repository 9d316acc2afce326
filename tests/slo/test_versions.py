"""Versions of documents: who changed what, when; and edits that keep history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import Engine as Database

from base.db import open_engine, transaction
from base.migrate import upgrade
from slo import version_book
from slo.described import changes, describe
from slo.documents import load
from slo.model import Slo
from slo.parse import parse_clauses
from slo.tiers import derive
from slo.version_api import router
from slo.version_book import Version
from tests.slo.made_facts import EPOCH

DAY = timedelta(days=1)
CHAT = Slo(
    "chat",
    0.95,
    30 * DAY,
    parse_clauses("outcome = 'good' and ttft_ms <= 2000"),
    derive(0.95, 30 * DAY),
    group_by=("tenant",),
    labels={"team": "platform"},
)
STRICTER = replace(
    CHAT,
    objective=0.99,
    good=parse_clauses("outcome = 'good' and ttft_ms <= 1500"),
    tiers=derive(0.99, 30 * DAY),
    labels={},
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = open_engine(f"sqlite:///{tmp_path}/control.db")
    upgrade(database)
    yield database
    database.dispose()


def recorded(db: Database, slos: list[Slo], author: str, day: int) -> list[Version]:
    with transaction(db) as connection:
        return version_book.record(connection, slos, author, EPOCH + day * DAY)


def test_only_what_differs_becomes_a_version(db: Database) -> None:
    (first,) = recorded(db, [CHAT], "ada", 1)
    assert recorded(db, [CHAT], "ben", 2) == []
    (second,) = recorded(db, [STRICTER], "ben", 3)
    (gone,) = recorded(db, [], "cleo", 4)
    assert recorded(db, [], "cleo", 5) == []
    (back,) = recorded(db, [STRICTER], "ada", 6)

    assert [v.number for v in (first, second, gone, back)] == [1, 2, 3, 4]
    assert (first.changes, gone.changes, back.changes) == (
        ("written",),
        ("taken away",),
        ("written",),
    )
    assert second.author == "ben"
    assert "objective: 95 -> 99" in second.changes
    assert "good.ttft_ms <= 2000: removed: ttft_ms <= 2000" in second.changes
    assert "good.ttft_ms <= 1500: added: ttft_ms <= 1500" in second.changes
    assert "labels.team: removed: platform" in second.changes
    with transaction(db) as connection:
        assert version_book.history(connection, "chat") == [back, gone, second, first]


def test_a_document_is_described_by_what_it_sets_and_what_is_derived(tmp_path: Path) -> None:
    file = tmp_path / "slo.yaml"
    file.write_text(
        "kind: slo\nname: a\nobjective: 99.5\nwindow: 7d\ncalendar: month\n"
        "eligible: route = '/v1/chat'\ngood: {quick: ttft_ms <= 100}\n"
        "tiers: [{name: fast, factor: 10, long: 1h, short: 5m}]\n"
    )
    (slo,) = load([file])

    said = describe(slo)

    assert said["objective"] == "99.5"
    assert said["calendar"] == "month in UTC"
    assert said["eligible"] == "route = '/v1/chat'"
    assert said["good.quick"] == "ttft_ms <= 100"
    assert said["tiers.fast"].startswith("page at 10 over 1h and 5m")


def test_changes_are_listed_in_the_order_of_the_document() -> None:
    before, after = {"a": "1", "b": "2", "c": "3"}, {"a": "1", "c": "4", "d": "5"}

    assert changes(before, after) == ["b: removed: 2", "c: 3 -> 4", "d: added: 5"]


def test_history_and_reload_over_http(db: Database) -> None:
    asked: list[str] = []

    def reload(by: str) -> list[Version]:
        asked.append(by)
        return recorded(db, [STRICTER], by, 9)

    recorded(db, [CHAT], "ada", 1)
    app = FastAPI()
    app.include_router(router(db, reload))
    client = TestClient(app)

    (new,) = client.post("/api/v1/slos/reload", json={"by": "ben"}).json()["versions"]

    assert asked == ["ben"]
    assert (new["number"], new["author"]) == (2, "ben")
    listed = client.get("/api/v1/slos/chat/versions").json()["versions"]
    assert [each["number"] for each in listed] == [2, 1]
    assert listed[1]["said"]["objective"] == "95"
    assert client.get("/api/v1/slos/nobody/versions").status_code == 404
    assert client.post("/api/v1/slos/reload", json={}).status_code == 422
