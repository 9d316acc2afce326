"""The pipeline over the real engine: exactly once, poison set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from base.clock import ManualClock
from collector.dead_letter import DeadLetters
from collector.pipeline import Pipeline
from collector.progress import ProgressFile
from collector.view import install
from collector.vocabulary import load
from collector.wal import LogWriter
from collector.wal_reader import LogReader
from collector.wal_records import LogRecord
from store import schema
from store.engine import Engine
from store.open import open_engine
from store.otlp import SpanRecord
from store.spans import SpanStore

MakeRequest = Callable[..., ExportTraceServiceRequest]


class Crash(BaseException):
    """The process dies here."""


class CrashingStore:
    """The real store in a process that dies right after its first insert."""

    def __init__(self, store: SpanStore) -> None:
        self._store = store

    def insert(self, records: Sequence[SpanRecord], token: str, seq: int) -> Any:
        self._store.insert(records, token, seq)
        raise Crash


class NoFacts:
    def refresh(self, seq: int) -> tuple[()]:
        return ()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(f"chdb://{tmp_path}/store")
    schema.create(opened)
    install(opened, load())
    yield opened
    opened.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    writer = LogWriter(tmp_path / "wal")
    yield writer
    writer.close()


def write(log: LogWriter, *bodies: bytes, tenant: str = "") -> None:
    for body in bodies:
        log.append(LogRecord(body, tenant, "key:gw", 1_796_061_255 * 10**9, 2)).result(10)


def pipeline(tmp_path: Path, clock: ManualClock, spans: Any) -> Pipeline:
    return Pipeline(
        LogReader(tmp_path / "wal"),
        spans,
        NoFacts(),
        [],
        clock,
        progress=ProgressFile(tmp_path / "wal"),
        dead_letters=DeadLetters(tmp_path / "dead-letter"),
    )


def stored(engine: Engine) -> list[tuple[int, str, str, str]]:
    rows = engine.rows(
        "SELECT reinterpretAsUInt64(reverse(span_id)) AS id, tenant, credential_tenant, source "
        "FROM spans ORDER BY id"
    )
    return [(row["id"], row["tenant"], row["credential_tenant"], row["source"]) for row in rows]


@pytest.mark.slow
def test_a_batch_that_was_inserted_before_the_crash_is_there_once(
    tmp_path: Path, clock: ManualClock, engine: Engine, log: LogWriter, request_of: MakeRequest
) -> None:
    write(log, request_of(0, 1).SerializeToString(), request_of(2).SerializeToString())
    with pytest.raises(Crash):
        pipeline(tmp_path, clock, CrashingStore(SpanStore(engine))).step()
    write(log, request_of(3).SerializeToString())

    again = pipeline(tmp_path, clock, SpanStore(engine))
    while again.step():
        pass

    assert [row[0] for row in stored(engine)] == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_request_that_the_engine_cannot_read_is_set_aside_and_the_rest_is_stored(
    tmp_path: Path, clock: ManualClock, engine: Engine, log: LogWriter, request_of: MakeRequest
) -> None:
    bodies = [request_of(number).SerializeToString() for number in range(5)]
    write(log, *bodies[:2], b"\x0a\xff\xff", *bodies[2:])

    pipeline(tmp_path, clock, SpanStore(engine)).step()

    assert [row[0] for row in stored(engine)] == [1, 2, 3, 4, 5]
    [letter] = DeadLetters(tmp_path / "dead-letter").all()
    assert letter.file.read_bytes() == b"\x0a\xff\xff"
    assert letter.reason


@pytest.mark.slow
def test_the_credential_s_tenant_wins_over_the_one_in_the_data(
    tmp_path: Path, clock: ManualClock, engine: Engine, log: LogWriter, request_of: MakeRequest
) -> None:
    write(log, request_of(0, tenant="claimed").SerializeToString(), tenant="real")
    write(log, request_of(1, tenant="claimed").SerializeToString())

    pipeline(tmp_path, clock, SpanStore(engine)).step()

    assert stored(engine) == [(1, "real", "real", "key:gw"), (2, "claimed", "", "key:gw")]
