"""OTLP/gRPC: bytes in, bytes out; no message object is made by gRPC itself."""

from __future__ import annotations

import ipaddress
import urllib.parse
from datetime import timedelta
from typing import Any

import grpc

from base.selfmon import Log
from collector.intake import Intake
from collector.keys import Identity, bearer_token
from collector.otlp_http import answer_protobuf
from collector.refusal import Reason, Refused

_TRACES = "opentelemetry.proto.collector.trace.v1.TraceService"
_OTHER_SIGNALS = {
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.profiles.v1development.ProfilesService": "profiles",
}
_FORWARDED = {"forwarded", "x-forwarded-for"}
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_log = Log(__name__)


def make_server(intake: Intake) -> Any:
    """Make the grpc.aio server. It must be called inside a running event loop."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", intake.max_request_bytes),
            # Calls at once of one connection. gRPC does not make the others wait: it refuses some
            # (REFUSED_STREAM), and the sender tries again.
            ("grpc.max_concurrent_streams", 512),
            ("grpc.so_reuseport", 0),
        ]
    )
    service = _Service(intake)
    handlers = [_handler(_TRACES, service.export)]
    for name, signal in _OTHER_SIGNALS.items():
        handlers.append(_handler(name, service.refuser(signal)))
    server.add_generic_rpc_handlers(tuple(handlers))
    return server


def is_loopback(peer: str) -> bool:
    """Read gRPC's text for a peer, such as ipv4:127.0.0.1:5, ipv6:[::1]:5 (escaped) or unix:."""
    kind, _, address = urllib.parse.unquote(peer).partition(":")
    if kind == "unix":
        return True
    host = address.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Service:
    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def export(self, body: bytes, context: Any) -> bytes:
        identity: Identity | None = None
        try:
            metadata = [(k, v) for k, v in context.invocation_metadata() if isinstance(v, str)]
            forwarded = any(name in _FORWARDED for name, _ in metadata)
            identity = self._intake.admission.identify(
                bearer_token(metadata), is_loopback(context.peer()) and not forwarded
            )
            self._intake.admission.check_log()
            with self._intake.admission.memory.hold(len(body)):
                return answer_protobuf(await self._intake.accept(body, identity, "grpc"))
        except Refused as error:
            refused = error
        except Exception:  # noqa: BLE001  the sender is told, and tries again
            _log.exception("otlp_grpc_failed")
            refused = Refused(Reason.INTERNAL, "the receiver failed", timedelta(seconds=5))
        self._intake.counters.refused(identity, "grpc", refused.reason)
        await _abort(context, refused)
        return b""

    def refuser(self, signal: str) -> Any:
        async def refuse(_body: bytes, context: Any) -> bytes:
            refused = Refused(
                Reason.NO_SUCH_SIGNAL, f"OTLP {signal} is not enabled in this version"
            )
            self._intake.counters.refused(None, "grpc", refused.reason)
            await _abort(context, refused)
            return b""

        return refuse


async def _abort(context: Any, refused: Refused) -> None:
    trailers = [("grpc-status-details-bin", refused.status().SerializeToString())]
    if (info := refused.retry_info()) is not None:
        # Where OpenTelemetry's own exporters for Python look, instead of in the details.
        trailers.append(("google.rpc.retryinfo-bin", info.SerializeToString()))
    await context.abort(_CODES[refused.grpc_code], refused.message, tuple(trailers))


def _handler(service: str, method: Any) -> Any:
    handler = grpc.unary_unary_rpc_method_handler(method)  # no deserialiser: bytes
    return grpc.method_handlers_generic_handler(service, {"Export": handler})
