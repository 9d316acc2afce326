from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.otlp_grpc import is_loopback

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LIMIT = 1 << 20  # of the `receiver` fixture

MakeRequest = Callable[..., ExportTraceServiceRequest]
LogOf = Callable[..., list[tuple[str, str, ExportTraceServiceRequest]]]


@pytest.fixture(scope="module")
def channel(receiver: Any) -> Iterator[grpc.Channel]:
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(receiver.grpc, options=options) as made:
        yield made


def export(channel: grpc.Channel, body: bytes, method: str = TRACES, **more: Any) -> bytes:
    return channel.unary_unary(method)(body, timeout=10, **more)  # type: ignore[no-any-return]


def refusal(channel: grpc.Channel, body: bytes, method: str = TRACES, **more: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        export(channel, body, method, **more)
    return caught.value


def details(error: Any) -> Status | None:
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            return Status.FromString(value)
    return None


def retry_after(error: Any) -> RetryInfo | None:
    status, info = details(error), RetryInfo()
    for detail in [] if status is None else status.details:
        if detail.Unpack(info):
            return info
    return None


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_request_is_on_disk_when_it_is_answered(
    receiver: Any,
    channel: grpc.Channel,
    request_of: MakeRequest,
    log_of: LogOf,
    compression: grpc.Compression,
) -> None:
    request = request_of(1, 2, 3)

    answer = export(channel, request.SerializeToString(), compression=compression)

    assert ExportTraceServiceResponse.FromString(answer) == ExportTraceServiceResponse()
    assert log_of(receiver.data)[-1] == ("", "loopback", request)


def test_an_invalid_span_is_rejected_and_the_others_are_kept(
    receiver: Any, channel: grpc.Channel, request_of: MakeRequest, log_of: LogOf
) -> None:
    request = request_of(1, 2)
    request.resource_spans[0].scope_spans[0].spans[0].span_id = b""

    answer = ExportTraceServiceResponse.FromString(export(channel, request.SerializeToString()))

    assert answer.partial_success.rejected_spans == 1
    assert "span_id" in answer.partial_success.error_message
    assert len(log_of(receiver.data)[-1][2].resource_spans[0].scope_spans[0].spans) == 1


def test_what_is_not_protobuf_is_an_invalid_argument(channel: grpc.Channel) -> None:
    error: Any = refusal(channel, b"\xff\xff")

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    status = details(error)
    assert status is not None
    assert status.code == 3
    assert retry_after(error) is None


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_request_that_is_too_large_must_not_be_sent_again(
    channel: grpc.Channel, compression: grpc.Compression
) -> None:
    error: Any = refusal(channel, bytes(LIMIT + 1), compression=compression)

    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert retry_after(error) is None


@pytest.mark.parametrize("signal", ["metrics", "logs"])
def test_other_signals_say_that_they_are_not_enabled(channel: grpc.Channel, signal: str) -> None:
    service = f"opentelemetry.proto.collector.{signal}.v1.{signal.capitalize()}Service"

    error: Any = refusal(channel, b"", f"/{service}/Export")

    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert error.details() == f"OTLP {signal} is not enabled in this version"


def test_another_method_is_unimplemented(channel: grpc.Channel) -> None:
    error: Any = refusal(channel, b"", "/nobody/Knows")

    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_what_a_proxy_forwards_is_not_loopback(
    channel: grpc.Channel, request_of: MakeRequest
) -> None:
    error: Any = refusal(
        channel,
        request_of(1).SerializeToString(),
        metadata=[("x-forwarded-for", "203.0.113.9")],
    )

    assert error.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("peer", "loopback"),
    [
        ("ipv4:127.0.0.1:5", True),
        ("ipv4:127.8.8.8:5", True),
        ("ipv6:[::1]:5", True),
        ("ipv6:%5B::1%5D:5", True),
        ("unix:/run/x", True),
        ("ipv4:10.0.0.1:5", False),
        ("ipv6:%5Bfe80::1%25eth0%5D:5", False),
        ("", False),
    ],
)
def test_a_peer_is_loopback_only_if_its_address_is(peer: str, loopback: bool) -> None:
    assert is_loopback(peer) is loopback
