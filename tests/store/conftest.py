"""One real store for the tests of this folder, emptied between tests, and ways to fill it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

from collector.view import install
from collector.vocabulary import load
from store import schema
from store.engine import Engine
from store.facts import FactBuilder
from store.open import open_engine
from store.otlp import SpanRecord
from store.rollup import RollupWriter
from store.spans import SpanStore

START_NS = 1_796_000_000_000_000_000
RECEIVED_NS = START_NS + 5_000_000_000
TESTS = Path(__file__).parents[1]
SHARED = TESTS.parents[1] / "shared" / "fixtures"
DERIVED = (
    "spans", "facts", "rollup_10s", "rollup_1m", "rollup_1h", "alive",
    "source_minutes", "ingest_batches", "ingest_duplicates", "unknown_names",
)  # fmt: skip

_SEQ = itertools.count(1)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = open_engine(f"chdb://{tmp_path_factory.mktemp('store')}")
    schema.create(engine)
    install(engine, load())
    yield engine
    engine.close()


@pytest.fixture
def engine(opened: Engine) -> Engine:
    empty(opened)
    return opened


@pytest.fixture
def clear(engine: Engine) -> Callable[[], None]:
    return lambda: empty(engine)


def empty(engine: Engine) -> None:
    for table in DERIVED:
        engine.execute(f"TRUNCATE TABLE {table}")


@pytest.fixture
def ingest(engine: Engine) -> Callable[..., int]:
    """Take bodies in as one batch: spans, facts, rollups. Returns the batch's number."""
    spans, facts, rollups = SpanStore(engine), FactBuilder(engine), RollupWriter(engine)

    def take(bodies: Sequence[bytes], *, tenant: str = "", source: str = "test") -> int:
        seq = next(_SEQ)
        records = [SpanRecord(body, tenant, source, RECEIVED_NS) for body in bodies]
        spans.insert(records, f"batch-{seq}", seq)
        rollups.refresh(facts.refresh(seq), seq)
        return seq

    return take


@pytest.fixture
def scenario() -> Callable[[str], tuple[list[bytes], list[dict[str, Any]]]]:
    """Read a captured vLLM scenario: the export requests and what the client saw."""

    def read(name: str) -> tuple[list[bytes], list[dict[str, Any]]]:
        folder = TESTS / "fixtures" / "vllm" / name
        if not folder.exists():
            folder = SHARED / "vllm" / name
        if not folder.exists():
            pytest.skip(f"scenario {name} is not beside this checkout")
        bodies = [path.read_bytes() for path in sorted(folder.glob("*.binpb"))]
        seen = folder / "client.jsonl"
        lines = seen.read_text().splitlines() if seen.exists() else []
        return bodies, [json.loads(line) for line in lines]

    return read


@pytest.fixture
def span_body() -> Callable[..., bytes]:
    return body_of


def body_of(
    *spans: dict[str, Any],
    service: str = "svc",
    instance: str = "i-0",
    scope: str = "test",
    resource: dict[str, Any] | None = None,
) -> bytes:
    """Build one export request of one resource.

    A span is a dict: trace and id (hex), parent (hex, optional), name, kind, start_ms and end_ms
    after `START_NS`, status, message, attributes, events as (ms after `START_NS`, name, these).
    """
    request = ExportTraceServiceRequest()
    scopes = request.resource_spans.add()
    named = {"service.name": service, "service.instance.id": instance} | (resource or {})
    scopes.resource.attributes.extend(_attributes(named))
    group = scopes.scope_spans.add()
    group.scope.name = scope
    for given in spans:
        span = group.spans.add()
        span.trace_id = bytes.fromhex(given["trace"].rjust(32, "0"))
        span.span_id = bytes.fromhex(given["id"].rjust(16, "0"))
        if given.get("parent"):
            span.parent_span_id = bytes.fromhex(given["parent"].rjust(16, "0"))
        span.name = given.get("name", "span")
        span.kind = given.get("kind", 1)
        span.start_time_unix_nano = START_NS + round(given.get("start_ms", 0) * 1e6)
        span.end_time_unix_nano = START_NS + round(given.get("end_ms", 100) * 1e6)
        span.status.code = given.get("status", 0)
        span.status.message = given.get("message", "")
        span.attributes.extend(_attributes(given.get("attributes", {})))
        for at_ms, name, said in given.get("events", ()):
            event = span.events.add()
            event.time_unix_nano = START_NS + round(at_ms * 1e6)
            event.name = name
            event.attributes.extend(_attributes(said))
    return request.SerializeToString()


def _attributes(values: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in values.items()]


def _value(value: Any) -> AnyValue:
    if value is None:
        return AnyValue()
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[_value(item) for item in value]))
    members = {bool: "bool", int: "int", float: "double", bytes: "bytes", str: "string"}
    return AnyValue(**{f"{members[type(value)]}_value": value})
