"""OTLP/HTTP as a bare ASGI application, with the receiver's own /status and /metrics."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from datetime import timedelta
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from base.selfmon import REGISTRY, Log
from collector.body import ENCODINGS, read_body
from collector.intake import Accepted, Intake
from collector.keys import Identity, bearer_token
from collector.refusal import Reason, Refused

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[str, str]]

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
BODY_TIMEOUT_S = 30.0

_PROTOBUF_NAMES = {PROTOBUF, "application/protobuf"}
_OTHER_SIGNALS = {
    "/v1/metrics": "metrics",
    "/v1/logs": "logs",
    "/v1development/profiles": "profiles",
}
_FORWARDED = {"forwarded", "x-forwarded-for"}
_HEADERS: dict[Reason, Headers] = {  # RFC 9110, sections 15.5.2, 15.5.6, 15.5.9 and 15.5.16
    Reason.UNAUTHENTICATED: [("www-authenticate", "Bearer")],
    Reason.WRONG_METHOD: [("allow", "POST")],
    Reason.SLOW_BODY: [("connection", "close")],
    Reason.UNSUPPORTED_TYPE: [
        ("accept", f"{PROTOBUF}, {JSON}"),
        ("accept-encoding", ", ".join(ENCODINGS)),
    ],
}
_log = Log(__name__)


class _ClientGone(Exception):  # noqa: N818  nobody is left to answer
    pass


class OtlpHttp:
    """The ASGI application. `status` makes the document of GET /status."""

    def __init__(self, intake: Intake, status: Callable[[], dict[str, Any]]) -> None:
        self._intake = intake
        self._status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
        path = scope["path"].rstrip("/")
        if path == "/v1/traces" and scope["method"] == "POST":
            await self._traces(scope, headers, receive, send)
        elif path in {"/status", "/metrics"} and scope["method"] in {"GET", "HEAD"}:
            await self._own(path, scope, headers, send)
        else:
            refused = _not_served(path)
            self._intake.counters.refused(None, "http", refused.reason)
            await _refuse(send, refused, _answer_type(headers))

    async def _traces(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        identity: Identity | None = None
        answer_type = _answer_type(headers)
        try:
            identity = self._intake.admission.identify(
                bearer_token(headers), is_loopback(scope, headers)
            )
            accepted = await self._accept(identity, headers, receive)
        except _ClientGone:
            return
        except Refused as refused:
            self._intake.counters.refused(identity, "http", refused.reason)
            await _refuse(send, refused, answer_type)
        except Exception:  # noqa: BLE001  the sender is told, and tries again
            _log.exception("otlp_http_failed")
            self._intake.counters.refused(identity, "http", Reason.INTERNAL)
            fault = Refused(Reason.INTERNAL, "the receiver failed", timedelta(seconds=5))
            await _refuse(send, fault, answer_type)
        else:
            body = answer_json(accepted) if answer_type == JSON else answer_protobuf(accepted)
            await _reply(send, 200, body, answer_type)

    async def _accept(self, identity: Identity, headers: Headers, receive: Receive) -> Accepted:
        fields = dict(headers)
        limit = self._intake.max_request_bytes
        content_type = _media_type(fields)
        if content_type != JSON and content_type not in _PROTOBUF_NAMES:
            raise Refused(
                Reason.UNSUPPORTED_TYPE,
                f"Content-Type {content_type!r} is neither {PROTOBUF} nor {JSON}",
            )
        if int(fields.get("content-length", "0")) > limit:
            raise Refused(Reason.TOO_LARGE, f"the request is larger than {limit} bytes")
        self._intake.admission.check_log()
        encoding = fields.get("content-encoding", "").strip().lower()
        with self._intake.admission.memory.hold() as held:
            try:
                async with asyncio.timeout(BODY_TIMEOUT_S):
                    body = await read_body(_pieces(receive), encoding, limit, held)
            except TimeoutError as error:
                raise Refused(
                    Reason.SLOW_BODY, f"the body took longer than {BODY_TIMEOUT_S:g} s"
                ) from error
            return await self._intake.accept(body, identity, "http", is_json=content_type == JSON)

    async def _own(self, path: str, scope: Scope, headers: Headers, send: Send) -> None:
        known = self._intake.admission.knows(bearer_token(headers), is_loopback(scope, headers))
        if not known:
            await _reply(send, 401, b"a key is needed\n", "text/plain")
        elif path == "/metrics":
            await _reply(send, 200, generate_latest(REGISTRY), CONTENT_TYPE_LATEST)
        else:
            await _reply(send, 200, json.dumps(self._status()).encode(), JSON)


def is_loopback(scope: Scope, headers: Headers) -> bool:
    """Say whether the sender is on this machine; what a proxy forwards is not."""
    client = scope.get("client")
    if client is None or any(name in _FORWARDED for name, _ in headers):
        return False
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def answer_protobuf(accepted: Accepted) -> bytes:
    """Write the ExportTraceServiceResponse: empty on full success."""
    if not accepted.rejected:
        return b""
    return ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(
            rejected_spans=accepted.rejected, error_message=accepted.complaint
        )
    ).SerializeToString()


def answer_json(accepted: Accepted) -> bytes:
    if not accepted.rejected:
        return b"{}"
    partial = {
        "rejectedSpans": str(accepted.rejected),  # an int64 is text in protobuf's JSON
        "errorMessage": accepted.complaint,
    }
    return json.dumps({"partialSuccess": partial}).encode()


def _not_served(path: str) -> Refused:
    if path in _OTHER_SIGNALS:
        signal = _OTHER_SIGNALS[path]
        return Refused(Reason.NO_SUCH_SIGNAL, f"OTLP {signal} is not enabled in this version")
    if path == "/v1/traces":
        return Refused(Reason.WRONG_METHOD, "traces are sent with POST")
    return Refused(Reason.NO_SUCH_PATH, "this port takes POST /v1/traces")


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        if piece := message.get("body", b""):
            yield piece
        if not message.get("more_body", False):
            return


def _media_type(fields: dict[str, str]) -> str:
    return fields.get("content-type", "").partition(";")[0].strip().lower()


def _answer_type(headers: Headers) -> str:
    """Answer in the request's own type; in JSON if that is unknown."""
    return PROTOBUF if _media_type(dict(headers)) in _PROTOBUF_NAMES else JSON


async def _refuse(send: Send, refused: Refused, answer_type: str) -> None:
    body = refused.status_json() if answer_type == JSON else refused.status().SerializeToString()
    extra = list(_HEADERS.get(refused.reason, ()))
    if refused.after is not None:
        extra.append(("retry-after", str(math.ceil(refused.after.total_seconds()))))
    await _reply(send, refused.http_status, body, answer_type, extra)


async def _reply(
    send: Send, status: int, body: bytes, content_type: str, extra: Headers | None = None
) -> None:
    headers = [("content-type", content_type), ("content-length", str(len(body))), *(extra or [])]
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
