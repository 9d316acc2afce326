"""What is refused for a while, what for good, and that senders can tell."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from google.protobuf.json_format import Parse
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from base.clock import ManualClock
from collector.keys import Role
from collector.refusal import LONGEST_WAIT, Reason, Refused
from collector.wellformed import Checked
from tests.collector.conformance.case import ALL, Case, Transport, one, request, span
from tests.collector.conformance.client import Client, Disk, Told
from tests.collector.conformance.conftest import Serve, Served

_CHECK = "collector.intake.check"
RETRYABLE_HTTP = {429, 502, 503, 504}
SDK_GIVES_UP_S = 10.0  # OTEL_EXPORTER_OTLP_TIMEOUT
RATE = 10
MANY = Case("throttling", "many", request(*(span(name=str(n)) for n in range(RATE * 30))))
ONE = Case("throttling", "one", one())
PASSING = {Reason.RATE_LIMITED, Reason.OVERLOADED, Reason.LOG_FULL, Reason.DISK, Reason.INTERNAL}
HTTP_ONLY = {Reason.SLOW_BODY}  # its code is in the body of an answer that HTTP says is final


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_either_for_a_while_or_for_good_on_both_transports(reason: Reason) -> None:
    passing = reason in PASSING
    refused = Refused(reason, "why", timedelta(seconds=1) if passing else None)

    assert (refused.http_status in RETRYABLE_HTTP) == passing
    assert (refused.grpc_code == Code.UNAVAILABLE) == passing
    if reason not in HTTP_ONLY:
        final = {Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.ABORTED, Code.OUT_OF_RANGE}
        assert refused.grpc_code not in {*final, Code.DATA_LOSS}
    for status in (refused.status(), _from_json(refused.status_json())):
        infos = [each for each in status.details if each.Is(RetryInfo.DESCRIPTOR)]
        assert len(infos) == passing


def _from_json(body: bytes) -> Status:
    return Parse(body, Status())


@pytest.mark.parametrize("wanted_s", [0.1, 1, 15, 600])
def test_no_wait_is_so_long_that_an_sdk_gives_up(wanted_s: float) -> None:
    refused = Refused(Reason.LOG_FULL, "why", timedelta(seconds=wanted_s))

    assert refused.after == min(timedelta(seconds=wanted_s), LONGEST_WAIT)
    assert LONGEST_WAIT.total_seconds() * 3 < SDK_GIVES_UP_S


@pytest.fixture(scope="module")
def served(serve_here: Serve, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """One that takes ten spans a second from each tenant, on a clock that stands still."""
    return serve_here(tmp_path_factory.mktemp("slow"), spans_per_s=RATE)


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[Client]:
    made = Client(served.http, served.grpc)
    yield made
    made.close()


def _spend(client: Client, served: Served) -> None:
    """Let everything be forgotten, then send more than a second's worth."""
    served.clock.advance(timedelta(hours=1))
    assert client.send(MANY, Transport.PROTOBUF).http == 200


def _passes(told: Told, http: int) -> None:
    assert told.http in {http, None}
    assert told.code == Code.UNAVAILABLE
    assert told.retry_s is not None
    assert 1 <= told.retry_s <= LONGEST_WAIT.total_seconds()
    if told.http is None:
        assert RetryInfo.FromString(told.headers["google.rpc.retryinfo-bin"]).retry_delay.seconds
    else:
        assert int(told.headers["retry-after"]) == -(-told.retry_s // 1)


@pytest.mark.parametrize("transport", ALL)
def test_beyond_the_rate_a_sender_is_told_to_wait_and_taken_when_it_did(
    served: Served, client: Client, transport: Transport
) -> None:
    _spend(client, served)
    disk = Disk(served.data)
    disk.news()

    told = client.send(ONE, transport)

    _passes(told, 429)
    assert disk.news() == []
    for _ in range(15):
        served.clock.advance(timedelta(seconds=told.retry_s or 0))
        told = client.send(ONE, transport)
        if told.status is None:
            break
    assert told.status is None
    assert len(disk.news()) == 1


@pytest.mark.parametrize("transport", ALL)
def test_an_empty_request_and_an_invalid_one_cost_nothing_of_the_rate(
    served: Served, client: Client, transport: Transport
) -> None:
    _spend(client, served)

    empty = client.send(Case("empty_request", "empty", request()), transport)
    invalid = client.send(Case("no_retry", "invalid", one(span_id=b"")), transport)

    assert empty.status is None
    assert invalid.response is not None
    assert invalid.response.partial_success.rejected_spans == 1


@pytest.mark.parametrize("transport", ALL)
def test_a_full_log_is_refused_for_a_while(full: Client, transport: Transport) -> None:
    _passes(full.send(ONE, transport), 503)


@pytest.fixture(scope="module")
def full(serve_here: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One whose log nobody reads, and may hold one request."""
    served = serve_here(tmp_path_factory.mktemp("full"), log_bytes=1)
    made = Client(served.http, served.grpc)
    assert made.send(ONE, Transport.PROTOBUF).http == 200
    assert httpx.get(f"{served.http}/status").json()["log"]["waiting_bytes"] > 1  # counted anew
    yield made
    made.close()


def _disk_is_full(_fd: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _receiver_fails(_body: bytes) -> Checked:
    raise RuntimeError("a fault of ours")


@pytest.mark.parametrize("transport", ALL)
@pytest.mark.parametrize(
    ("broken", "by"), [("collector.wal.os.fdatasync", _disk_is_full), (_CHECK, _receiver_fails)]
)
def test_a_fault_of_ours_is_for_a_while_and_the_same_request_is_taken_when_it_is_over(
    served: Served,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
    by: Callable[..., Any],
    transport: Transport,
) -> None:
    served.clock.advance(timedelta(hours=1))
    with monkeypatch.context() as patch:
        patch.setattr(broken, by)
        told = client.send(ONE, transport)

    _passes(told, 503)
    assert client.send(ONE, transport).status is None


@pytest.fixture(scope="module")
def small(serve_here: Serve, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """One that may hold two thousand bytes of requests."""
    return serve_here(tmp_path_factory.mktemp("small"), memory_bytes=2000)


@pytest.mark.parametrize("transport", ALL)
def test_full_memory_is_for_a_while(small: Served, transport: Transport) -> None:
    client = Client(small.http, small.grpc)
    case = Case("throttling", "large", one(name="x" * 1500))
    with _half_sent(small, 1500):
        _wait_until(lambda: _held_bytes(small) >= 1500)

        told = client.send(case, transport)

    _passes(told, 503)
    _wait_until(lambda: _held_bytes(small) == 0)
    assert client.send(case, transport).status is None
    client.close()


def test_a_body_that_takes_too_long_is_refused_and_its_connection_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.otlp_http.BODY_TIMEOUT_S", 0.05)

    with _half_sent(served, 100) as connection:
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head
    status = Status.FromString(body)
    assert status.message == "the body took longer than 0.05 s"
    assert not status.details


@contextmanager
def _half_sent(served: Served, size: int) -> Iterator[socket.socket]:
    """Send so many bytes of a body that is twice as long."""
    address = urlsplit(served.http)
    head = f"Host: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: {size * 2}\r\n\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\n" + head.encode() + bytes(size))
        yield connection


def _held_bytes(served: Served) -> int:
    held: int = httpx.get(f"{served.http}/status").json()["memory_bytes"]
    return held


def _wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.005)
    pytest.fail("it did not happen in time")


def _advancing(clock: ManualClock, waits: list[float]) -> Callable[[float], bool]:
    def wait(seconds: float) -> bool:
        waits.append(seconds)
        clock.advance(timedelta(seconds=seconds))
        return False

    return wait


def _spans() -> list[ReadableSpan]:
    span = TracerProvider().get_tracer("test").start_span("sdk")
    span.end()
    assert isinstance(span, ReadableSpan)
    return [span]


def _http(served: Served, wait: Callable[[float], bool]) -> SpanExporter:
    exporter = HttpExporter(f"{served.http}/v1/traces")
    exporter._client._shutdown_event.wait = wait
    return exporter


def _grpc(served: Served, wait: Callable[[float], bool]) -> SpanExporter:
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
    exporter: Any = exporters.OTLPSpanExporter(served.grpc, insecure=True)
    exporter._shutdown_in_progress.wait = wait
    return exporter  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [_http, _grpc])
def test_the_sdk_s_exporter_waits_as_told_and_loses_nothing(
    served: Served, client: Client, make: Callable[..., SpanExporter]
) -> None:
    served.clock.advance(timedelta(hours=1))
    two_seconds = request(*(span(name=str(n)) for n in range(RATE * 4)))
    assert client.send(Case("throttling", "debt", two_seconds), Transport.PROTOBUF).http == 200
    disk, waits = Disk(served.data), list[float]()
    disk.news()
    exporter = make(served, _advancing(served.clock, waits))

    result = exporter.export(_spans())

    assert result is SpanExportResult.SUCCESS
    assert waits[0] == LONGEST_WAIT.total_seconds()  # not a backoff of its own
    assert len(disk.news()) == 1
    exporter.shutdown()


KEYS = {"ingest": Role.INGEST, "gateway": Role.GATEWAY, "admin": Role.ADMIN, "read": Role.READ}


@pytest.fixture(scope="module")
def keyed(
    serve_here: Serve, tmp_path_factory: pytest.TempPathFactory, new_key: Callable[..., str]
) -> tuple[Served, dict[str, str]]:
    data = tmp_path_factory.mktemp("keyed")
    keys = {
        name: new_key(data, name, role, "acme" if role is Role.INGEST else None)
        for name, role in KEYS.items()
    }
    return serve_here(data), keys


AUTH: list[tuple[str, str, dict[str, str], int, int | None]] = [
    # rule, name, headers ({…} is the key of that role), HTTP status, google.rpc code
    ("credentials", "Bearer", {"authorization": "Bearer {ingest}"}, 200, None),
    ("credentials", "bearer", {"authorization": "bearer {ingest}"}, 200, None),
    ("credentials", "space around it", {"authorization": "Bearer   {ingest}"}, 200, None),
    ("credentials", "x-api-key", {"x-api-key": "{ingest}"}, 200, None),
    ("credentials", "a gateway's", {"x-api-key": "{gateway}"}, 200, None),
    ("credentials", "an admin's", {"x-api-key": "{admin}"}, 200, None),
    ("unauthenticated", "none", {}, 401, Code.UNAUTHENTICATED),
    ("unauthenticated", "an empty one", {"x-api-key": ""}, 401, Code.UNAUTHENTICATED),
    ("unauthenticated", "an unknown one", {"x-api-key": "twk_no"}, 401, Code.UNAUTHENTICATED),
    ("unauthenticated", "Basic", {"authorization": "Basic {ingest}"}, 401, Code.UNAUTHENTICATED),
    ("unauthenticated", "no scheme", {"authorization": "{ingest}"}, 401, Code.UNAUTHENTICATED),
    ("unauthenticated", "cut", {"x-api-key": "{ingest:.10}"}, 401, Code.UNAUTHENTICATED),
    ("forbidden", "one that reads", {"x-api-key": "{read}"}, 403, Code.PERMISSION_DENIED),
]


CHECKED = {case[0] for case in AUTH} | {
    "retryable_http",
    "retryable_grpc",
    "throttling",
    "throttling_grpc",
    "delay",
    "no_retry",
}


@pytest.mark.parametrize("transport", ALL)
@pytest.mark.parametrize("case", AUTH, ids=lambda case: f"{case[0]}: {case[1]}")
def test_a_key_lets_in_and_its_absence_is_final(
    keyed: tuple[Served, dict[str, str]],
    transport: Transport,
    case: tuple[str, str, dict[str, str], int, int | None],
) -> None:
    served, keys = keyed
    rule, name, headers, http, code = case
    client, disk = Client(served.http, served.grpc), Disk(served.data)
    disk.news()

    given = {field: value.format(**keys) for field, value in headers.items()}
    told = client.send(Case(rule, name, one(), headers=given), transport)
    client.close()

    assert told.http in {http, None}
    assert told.code == code
    assert told.retry_s is None
    assert "retry-after" not in told.headers
    assert (told.headers.get("www-authenticate") == "Bearer") == (told.http == 401)
    assert len(disk.news()) == (code is None)
