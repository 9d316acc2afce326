"""What the collector's tests are made of: small requests, a log folder, a receiver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from base.clock import ManualClock
from base.db import metadata, open_engine
from collector.keys import Role, create_key
from collector.tables import api_keys
from collector.wal_reader import BEGINNING, LogReader

ROOT = Path(__file__).parents[2]
START_NS = 1_796_061_254_170_000_000


def make_request(*span_ids: int, tenant: str = "acme") -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in span_ids:
        span = spans.add(
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(number + 1).to_bytes(8, "big"),
            name="chat",
            start_time_unix_nano=START_NS + number,
            end_time_unix_nano=START_NS + number + 1_000_000,
        )
        span.attributes.add(key="tenant.id").value.string_value = tenant
    return request


@pytest.fixture
def request_of() -> Callable[..., ExportTraceServiceRequest]:
    return make_request


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 11, 30, tzinfo=UTC))


@dataclass
class ReceiverProcess:
    process: subprocess.Popen[bytes]
    data: Path
    http: str
    grpc: str

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(20)


StartReceiver = Callable[..., ReceiverProcess]


@pytest.fixture(scope="module")
def receivers() -> Iterator[StartReceiver]:
    """Start real receiver processes; those still running at the end are killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(data: Path, **settings: object) -> ReceiverProcess:
        data.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "collector.receiver", "--data", str(data)]
        command += ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        command += ["--settings", json.dumps(settings)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the receiver did not start"
        ready = json.loads(line)
        return ReceiverProcess(process, data, ready["otlp_http"], ready["otlp_grpc"])

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        if process.stdout:
            process.stdout.close()


@pytest.fixture(scope="module")
def receiver(receivers: StartReceiver, tmp_path_factory: pytest.TempPathFactory) -> ReceiverProcess:
    """One receiver for a module's table of cases, with a limit of 1 MiB a request."""
    return receivers(tmp_path_factory.mktemp("receiver"), max_request_bytes=1 << 20)


def logged(data: Path) -> list[tuple[str, str, ExportTraceServiceRequest]]:
    """Read back what is in a receiver's log: tenant, source, request."""
    entries = LogReader(data / "wal").read(BEGINNING).entries
    return [
        (e.record.tenant, e.record.source, ExportTraceServiceRequest.FromString(e.record.body))
        for e in entries
    ]


@pytest.fixture(scope="session")
def log_of() -> Callable[[Path], list[tuple[str, str, ExportTraceServiceRequest]]]:
    return logged


@pytest.fixture(scope="session")
def new_key() -> Callable[..., str]:
    """Make a key in a data folder's control database, before or while a receiver runs on it."""

    def make(data: Path, name: str, role: Role, tenant: str | None = None) -> str:
        data.mkdir(exist_ok=True)
        engine = open_engine(f"sqlite:///{data}/control.db")
        metadata.create_all(engine, tables=[api_keys])
        when = ManualClock(datetime(2026, 11, 30, tzinfo=UTC))
        return create_key(engine, when, name=name, role=role, tenant=tenant)

    return make
