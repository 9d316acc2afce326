from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from base.clock import ManualClock
from base.durations import format_instant
from collector.api import router
from collector.counters import Counters, read_status, write_status
from collector.dead_letter import DeadLetters
from collector.keys import Identity, Role
from collector.pipeline import Lag, PipelineStatus
from collector.refusal import Reason
from collector.wal_records import Entry, LogRecord, Position

ACME = Identity("key:app", "acme", Role.INGEST)


@dataclass(frozen=True)
class Stored:
    source: str
    tenant: str
    accepted: int
    duplicate: int = 0
    late: int = 0
    unknown_names: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    layer: str
    service: str
    instance: str
    first: datetime
    last: datetime


class FakePipeline:
    def lag(self) -> Lag:
        return Lag(1234, timedelta(seconds=2.5))

    def status(self) -> PipelineStatus:
        return PipelineStatus(Position(1, 16), 7, 3, 40, 1, 2, "insert: OSError: away")


@pytest.fixture
def client(tmp_path: Path, clock: ManualClock) -> TestClient:
    letters = DeadLetters(tmp_path / "dead-letter")
    record = LogRecord(b"poison", "acme", "key:app", int(clock.now().timestamp() * 1e9), 3)
    letters.put(Entry(record, Position(1, 16), Position(1, 60)), "cannot parse")
    app = FastAPI()
    app.include_router(
        router(
            receiver_status=tmp_path / "receiver.json",
            pipeline=FakePipeline(),
            dead_letters=letters,
            stored=lambda: [
                Stored("key:app", "acme", 100, 4, 2, {"gen_ai.new.thing": 9}),
                Stored("loopback", "globex", 5),
            ],
            watermarks=lambda now: [State("engine", "vllm", "r0", now, now)],
            clock=clock,
        )
    )
    return TestClient(app)


def report(path: Path, clock: ManualClock) -> None:
    counters = Counters(clock)
    counters.accepted(ACME, "http", spans=110, size=1000, rejected=1, ack_s=0.004)
    counters.refused(ACME, "http", Reason.UNDECODABLE)
    counters.refused(None, "grpc", Reason.UNAUTHENTICATED)
    status = {
        "at": format_instant(clock.now()),
        "otlp_http": "http://127.0.0.1:4318",
        "otlp_grpc": "127.0.0.1:4317",
        "log": {"error": None},
    }
    write_status(path, status | counters.snapshot())


def test_the_receiver_says_when_it_last_took_and_refused_of_each_sender(
    tmp_path: Path, clock: ManualClock
) -> None:
    report(tmp_path / "receiver.json", clock)

    status = read_status(tmp_path / "receiver.json")

    assert status is not None
    now, (app, nobody) = format_instant(clock.now()), status["sources"]
    assert (app["last"], app["refused_last"]) == (now, {"undecodable": now})
    assert (nobody["last"], nobody["refused_last"]) == (None, {"unauthenticated": now})


def test_receiver_store_and_dead_letters_are_joined_by_sender(
    client: TestClient, tmp_path: Path, clock: ManualClock
) -> None:
    report(tmp_path / "receiver.json", clock)

    body = client.get("/api/v1/ingest").json()

    assert body["sources"][0] == {
        "source": "key:app",
        "tenant": "acme",
        "accepted": 100,
        "duplicate": 4,
        "late": 2,
        "unknown_names": {"gen_ai.new.thing": 9},
        "acknowledged": 110,
        "rejected": 1,
        "refused": {"undecodable": 1},
        "dead_lettered": 1,
    }
    assert [each["source"] for each in body["sources"]] == [
        "key:app",
        "loopback",
        "unauthenticated",
    ]
    assert body["sources"][2]["refused"] == {"unauthenticated": 1}
    assert body["sources"][2]["tenant"] is None


def test_the_log_says_how_far_behind_the_store_is_and_why(client: TestClient) -> None:
    assert client.get("/api/v1/ingest").json()["log"] == {
        "lag_bytes": 1234,
        "lag_s": 2.5,
        "batches": 3,
        "failures": 2,
        "error": "insert: OSError: away",
    }


def test_a_receiver_that_stopped_reporting_is_not_up(
    client: TestClient, tmp_path: Path, clock: ManualClock
) -> None:
    assert client.get("/api/v1/ingest").json()["receiver"]["up"] is False
    report(tmp_path / "receiver.json", clock)
    assert client.get("/api/v1/ingest").json()["receiver"]["up"] is True

    clock.advance(timedelta(seconds=11))

    receiver = client.get("/api/v1/ingest").json()["receiver"]
    assert (receiver["up"], receiver["ack_p99_ms"]) == (False, 5)


def test_watermarks_are_as_of_the_time_asked_for(client: TestClient) -> None:
    body = client.get("/api/v1/ingest", params={"now": "2026-11-30T18:00:00Z"}).json()

    assert body["watermarks"][0]["last"] == "2026-11-30T18:00:00.000Z"


def test_a_time_that_is_none_is_a_bad_request(client: TestClient) -> None:
    assert client.get("/api/v1/ingest", params={"now": "soon"}).status_code == 400


def test_dead_letters_name_their_file_and_reason(client: TestClient) -> None:
    [letter] = client.get("/api/v1/ingest").json()["dead_letters"]

    assert letter["file"] == "000000000001-0000000016.binpb"
    assert letter["reason"] == "cannot parse"
