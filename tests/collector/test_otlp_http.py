from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.body import zstd

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"
LIMIT = 1 << 20  # of the `receiver` fixture

MakeRequest = Callable[..., ExportTraceServiceRequest]
LogOf = Callable[..., list[tuple[str, str, ExportTraceServiceRequest]]]


def json_request(**members: Any) -> bytes:
    span = {"traceId": TRACE, "spanId": SPAN, "name": "x", "startTimeUnixNano": "5"} | members
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def post(
    receiver: Any, body: bytes, content_type: str | None = PROTOBUF, **headers: str
) -> httpx.Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type is not None:
        fields["content-type"] = content_type
    return httpx.post(f"{receiver.http}/v1/traces", content=body, headers=fields, timeout=10)


def test_a_protobuf_request_is_on_disk_when_it_is_answered(
    receiver: Any, request_of: MakeRequest, log_of: LogOf
) -> None:
    request = request_of(1, 2, 3)

    answer = post(receiver, request.SerializeToString())

    assert answer.status_code == 200
    assert answer.headers["content-type"] == PROTOBUF
    assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    assert log_of(receiver.data)[-1] == ("", "loopback", request)


def test_a_json_request_becomes_protobuf_in_the_log(receiver: Any, log_of: LogOf) -> None:
    answer = post(receiver, json_request(kind=2), "application/json; charset=utf-8")

    assert (answer.status_code, answer.json()) == (200, {})
    assert answer.headers["content-type"] == JSON
    span = log_of(receiver.data)[-1][2].resource_spans[0].scope_spans[0].spans[0]
    assert (span.trace_id.hex(), span.kind) == (TRACE, 2)


COMPRESSIONS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "identity": lambda body: body,
    "zstd": zstd.compress,
    "zstd in two frames": lambda body: zstd.compress(body[:9]) + zstd.compress(body[9:]),
    "gzip in two members": lambda body: gzip.compress(body[:9]) + gzip.compress(body[9:]),
}


@pytest.mark.parametrize("content_type", [PROTOBUF, "application/protobuf", JSON])
@pytest.mark.parametrize("name", list(COMPRESSIONS))
def test_compressed_bodies_are_read(
    receiver: Any, request_of: MakeRequest, log_of: LogOf, name: str, content_type: str
) -> None:
    body = json_request() if content_type == JSON else request_of(7).SerializeToString()

    answer = post(
        receiver, COMPRESSIONS[name](body), content_type, content_encoding=name.split(maxsplit=1)[0]
    )

    assert answer.status_code == 200
    assert len(log_of(receiver.data)[-1][2].resource_spans) == 1


REFUSED: dict[str, tuple[bytes, str | None, dict[str, str], int, int]] = {
    # name: body, content type, headers, HTTP status, google.rpc code
    "not protobuf": (b"\xff\xff", PROTOBUF, {}, 400, 3),
    "cut protobuf": (b"\x0a\x7f\x01", PROTOBUF, {}, 400, 3),
    "text that is not UTF-8": (
        b"\x0a\x08\x12\x06\x12\x04\x2a\x02\xff\xfe",
        PROTOBUF,
        {},
        400,
        3,
    ),
    "not JSON": (b"{", JSON, {}, 400, 3),
    "JSON of another shape": (b'{"resourceSpans": 5}', JSON, {}, 400, 3),
    "an empty JSON body": (b"", JSON, {}, 400, 3),
    "not gzip": (b"plain", PROTOBUF, {"content_encoding": "gzip"}, 400, 3),
    "cut gzip": (gzip.compress(b"x" * 99)[:-5], PROTOBUF, {"content_encoding": "gzip"}, 400, 3),
    "not zstd": (b"plain", PROTOBUF, {"content_encoding": "zstd"}, 400, 3),
    "cut zstd": (zstd.compress(b"x" * 99)[:-5], PROTOBUF, {"content_encoding": "zstd"}, 400, 3),
    "zstd that wants a window of a gigabyte": (
        zstd.compress(b"x", options={zstd.CompressionParameter.window_log: 30}),
        PROTOBUF,
        {"content_encoding": "zstd"},
        400,
        3,
    ),
    "another encoding": (b"x", PROTOBUF, {"content_encoding": "br"}, 415, 3),
    "another type": (b"x", "text/plain", {}, 415, 3),
    "no type": (b"x", None, {}, 415, 3),
    "too large": (bytes(LIMIT + 1), PROTOBUF, {}, 413, 8),
    "too large when decompressed": (
        gzip.compress(bytes(LIMIT + 1)),
        PROTOBUF,
        {"content_encoding": "gzip"},
        413,
        8,
    ),
    "too large when unpacked": (
        zstd.compress(bytes(LIMIT + 1)),
        PROTOBUF,
        {"content_encoding": "zstd"},
        413,
        8,
    ),
    "too large JSON": (b" " * (LIMIT + 1), JSON, {}, 413, 8),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_refusal_is_final_and_carries_a_status_in_the_request_s_own_type(
    receiver: Any, log_of: LogOf, name: str
) -> None:
    body, content_type, headers, status, code = REFUSED[name]
    before = len(log_of(receiver.data))

    answer = post(receiver, body, content_type, **headers)

    assert answer.status_code == status
    assert "retry-after" not in answer.headers
    if content_type == PROTOBUF:
        assert answer.headers["content-type"] == PROTOBUF
        told = Status.FromString(answer.content)
        assert (told.code, bool(told.message)) == (code, True)
    else:
        assert answer.headers["content-type"] == JSON
        assert answer.json()["code"] == code
        assert answer.json()["message"]
    assert len(log_of(receiver.data)) == before


def test_an_empty_protobuf_request_is_accepted_and_not_logged(receiver: Any, log_of: LogOf) -> None:
    before = len(log_of(receiver.data))

    assert post(receiver, b"").status_code == 200
    assert post(receiver, b"{}", JSON).status_code == 200
    assert len(log_of(receiver.data)) == before


INVALID: dict[str, dict[str, Any]] = {
    "trace id missing": {"traceId": ""},
    "trace id short": {"traceId": TRACE[:-2]},
    "trace id long": {"traceId": TRACE + "00"},
    "trace id all zero": {"traceId": "0" * 32},
    "trace id not hex": {"traceId": "g" * 32},
    "span id missing": {"spanId": None},
    "span id short": {"spanId": SPAN[:-2]},
    "span id all zero": {"spanId": "0" * 16},
    "parent id long": {"parentSpanId": SPAN + "00"},
    "start missing": {"startTimeUnixNano": "0"},
    "start too late": {"startTimeUnixNano": str(2**32 * 10**9)},
    "end too late": {"endTimeUnixNano": str(2**32 * 10**9)},
    "start beyond 63 bits": {"startTimeUnixNano": str(2**63)},
}


@pytest.mark.parametrize("name", list(INVALID))
def test_one_invalid_span_is_rejected_and_the_others_are_kept(
    receiver: Any, log_of: LogOf, name: str
) -> None:
    good = json.loads(json_request(name="good"))
    bad = json.loads(json_request(name="bad", **INVALID[name]))
    spans = good["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans += bad["resourceSpans"][0]["scopeSpans"][0]["spans"]

    answer = post(receiver, json.dumps(good).encode(), JSON)

    assert answer.status_code == 200
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert "'bad'" in partial["errorMessage"]
    kept = log_of(receiver.data)[-1][2].resource_spans[0].scope_spans[0].spans
    assert [span.name for span in kept] == ["good"]


def test_partial_success_is_said_in_protobuf_too(receiver: Any, request_of: MakeRequest) -> None:
    request = request_of(1, 2)
    request.resource_spans[0].scope_spans[0].spans[0].trace_id = b"short"

    answer = ExportTraceServiceResponse.FromString(
        post(receiver, request.SerializeToString()).content
    )

    assert answer.partial_success.rejected_spans == 1
    assert "trace_id is 5 bytes" in answer.partial_success.error_message


def test_fields_that_the_store_adds_itself_cannot_be_forged(
    receiver: Any, request_of: MakeRequest, log_of: LogOf
) -> None:
    request = request_of(1)
    forged = request.SerializeToString() + b"\xc2\x3e\x04evil"  # field 1000, credential_tenant

    assert post(receiver, forged).status_code == 200

    body = log_of(receiver.data)[-1][2].SerializeToString()
    assert b"evil" not in body


@pytest.mark.parametrize("signal", ["metrics", "logs"])
def test_other_signals_say_that_they_are_not_enabled(receiver: Any, signal: str) -> None:
    answer = httpx.post(
        f"{receiver.http}/v1/{signal}", content=b"{}", headers={"content-type": JSON}
    )

    assert answer.status_code == 404
    assert answer.json() == {"code": 12, "message": f"OTLP {signal} is not enabled in this version"}


def test_another_method_is_told_which_one_to_use(receiver: Any) -> None:
    answer = httpx.get(f"{receiver.http}/v1/traces")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_another_path_is_not_found(receiver: Any) -> None:
    assert httpx.post(f"{receiver.http}/v1/trace").status_code == 404


def test_a_chunked_body_without_a_length_is_read(receiver: Any, request_of: MakeRequest) -> None:
    body = request_of(1).SerializeToString()

    answer = httpx.post(
        f"{receiver.http}/v1/traces",
        content=iter([body[:10], body[10:]]),
        headers={"content-type": PROTOBUF},
    )

    assert answer.status_code == 200


def test_a_sender_that_hangs_up_in_the_middle_changes_nothing(
    receiver: Any, log_of: LogOf, request_of: MakeRequest
) -> None:
    before = len(log_of(receiver.data))
    host, port = urlsplit(receiver.http).netloc.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
            b"Content-Length: 500\r\n\r\nhalf"
        )

    assert post(receiver, request_of(1).SerializeToString()).status_code == 200
    assert len(log_of(receiver.data)) == before + 1


def test_what_a_proxy_forwards_is_not_loopback(receiver: Any, request_of: MakeRequest) -> None:
    answer = post(receiver, request_of(1).SerializeToString(), x_forwarded_for="203.0.113.9")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert Status.FromString(answer.content).code == 16


def test_the_receiver_shows_its_counts(receiver: Any, request_of: MakeRequest) -> None:
    post(receiver, request_of(1, 2).SerializeToString())
    post(receiver, b"\xff")

    status = httpx.get(f"{receiver.http}/status").json()
    metrics = httpx.get(f"{receiver.http}/metrics").text

    [loopback] = [each for each in status["sources"] if each["source"] == "loopback"]
    assert loopback["spans"] >= 2
    assert loopback["refused"]["undecodable"] >= 1
    assert sum(status["ack_ms"]["count"]) == loopback["requests"]
    assert 'tokenweir_collector_spans_accepted_total{transport="http"}' in metrics
    assert (
        'tokenweir_collector_requests_refused_total{reason="undecodable",transport="http"}'
        in metrics
    )
