"""What is acknowledged can be stored: the engine reads every body that the receiver takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from base.clock import ManualClock
from base.errors import BadInput
from collector.dead_letter import DeadLetters
from collector.otlp_json import to_protobuf
from collector.pipeline import Pipeline
from collector.progress import ProgressFile
from collector.view import install
from collector.vocabulary import load
from collector.wal import LogWriter
from collector.wal_reader import LogReader
from collector.wal_records import LogRecord
from collector.wellformed import Checked, check
from store import schema
from store.open import open_engine
from store.spans import SpanStore
from tests.collector.conformance import cases_json, cases_protobuf, cases_spans
from tests.collector.conformance.case import JSON, SPAN_ID, Case


class NoFacts:
    def refresh(self, seq: int) -> tuple[()]:
        return ()


def _checked(case: Case) -> Checked | None:
    body = case.body if isinstance(case.body, bytes) else case.body.SerializeToString()
    try:
        return check(to_protobuf(body) if case.on == JSON else body)
    except BadInput:
        return None


def _span_ids(body: bytes) -> set[bytes]:
    read = ExportTraceServiceRequest.FromString(body)
    scopes = [scope for resource in read.resource_spans for scope in resource.scope_spans]
    return {span.span_id for scope in scopes for span in scope.spans}


@pytest.mark.slow
def test_the_engine_reads_every_body_that_is_taken(tmp_path: Path, clock: ManualClock) -> None:
    cases = [*cases_spans.CASES, *cases_protobuf.CASES, *cases_json.CASES]
    taken = [checked for each in cases if (checked := _checked(each)) and checked.spans]
    bodies = [
        checked.body.replace(SPAN_ID, number.to_bytes(8, "big"))  # one span is one id
        for number, checked in enumerate(taken, 1)
    ]
    log = LogWriter(tmp_path / "wal")
    for body in bodies:
        log.append(LogRecord(body, "", "key:gw", 1_796_061_255 * 10**9, 1)).result(10)
    engine = open_engine(f"chdb://{tmp_path}/store")
    schema.create(engine)
    install(engine, load())
    letters = DeadLetters(tmp_path / "dead-letter")
    progress = ProgressFile(tmp_path / "wal")
    reader = LogReader(tmp_path / "wal")
    pipeline = Pipeline(
        reader, SpanStore(engine), NoFacts(), [], clock, progress=progress, dead_letters=letters
    )

    while pipeline.step():
        pass

    rows = engine.rows("SELECT DISTINCT hex(span_id) AS id FROM spans")
    seconds = engine.rows("SELECT uniq(span_id) AS n FROM spans WHERE name = 'second'")
    engine.close()
    log.close()
    assert len(taken) > 150
    assert letters.all() == []
    assert seconds == [{"n": 2}]  # the last of two names, in protobuf and in JSON
    assert {bytes.fromhex(row["id"]) for row in rows} == set().union(*map(_span_ids, bodies))
