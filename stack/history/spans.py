"""The spans of one past request, encoded as the live processes would have sent them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from opentelemetry.sdk.resources import Resource

from base.ids import ulid
from stack.engine.sequence import Finished
from stack.history import otlp_bytes
from stack.history.otlp_bytes import (
    LOCAL_PARENT,
    REMOTE_PARENT,
    STATUS_UNSET,
    boolean,
    double,
    integer,
    once,
    span_head,
    status_error,
    text,
    texts,
)
from stack.history.plan import HistorySettings, Planned, version_at
from stack.wire import names
from stack.wire.openai_api import OPERATIONS
from stack.wire.outcome import Label, Outcome

INTERNAL, SERVER, CLIENT = 1, 2, 3
TO_ROUTER_S = 0.0012
TO_WORKER_S = 0.0021
TO_ENGINE_S = 0.0028
BACK_S = 0.0009
"""How long after the engine the router sees the end of an answer; the gateway takes twice that."""

_LOCAL_OK = STATUS_UNSET + LOCAL_PARENT
_REMOTE_OK = STATUS_UNSET + REMOTE_PARENT


@dataclass(frozen=True, slots=True)
class Answered:
    """How a request ended, as far as the gateway could tell. Times are the history's seconds."""

    outcome: Outcome
    status: int
    end: float
    replica: int | None = None
    decision: str = ""
    first_token_at: float | None = None
    finished: Finished | None = None


class SpanWriter:
    """Collects encoded spans by the process that sent them, until `body` takes them."""

    def __init__(self, settings: HistorySettings) -> None:
        self._settings = settings
        self._rng = random.Random(settings.seed + 1)
        self._zero_ns = round(settings.start.timestamp() * 1000) * 1_000_000
        self._zero_ms = self._zero_ns // 1_000_000
        self._spans: defaultdict[tuple[bytes, str], list[bytes]] = defaultdict(list)
        self._gateways: dict[str, bytes] = {}
        self._router = _resource(names.ROUTER_SERVICE, settings.router)
        self._engines = [
            _resource(
                names.ENGINE_SERVICE,
                replica,
                {
                    names.ENGINE_MODULE: names.ENGINE_MODULE_NAME,
                    names.ENGINE_PROCESS_ID: str(4000 + index),
                    names.REQUEST_MODEL: settings.model,
                },
            )
            for index, replica in enumerate(settings.replicas)
        ]

    def body(self) -> bytes:
        """Return one export request with everything written since the last call."""
        parts = [
            (resource, otlp_bytes.scope_spans(scope, spans))
            for (resource, scope), spans in self._spans.items()
        ]
        self._spans.clear()
        return otlp_bytes.request(parts)

    def request(self, planned: Planned, answered: Answered) -> None:
        """Write the gateway's span and, where it got that far, the router's and the engine's."""
        bits = self._rng.getrandbits
        trace_id = bits(128).to_bytes(16, "big")
        gateway_id = bits(64).to_bytes(8, "big")
        request_id = ulid(self._zero_ms + int(planned.at * 1000), bits(80)).encode()
        self._gateway_span(planned, answered, trace_id, gateway_id, request_id)
        if answered.replica is None:
            return
        router_id = bits(64).to_bytes(8, "big")
        client_id = bits(64).to_bytes(8, "big")
        self._router_spans(
            planned, answered, trace_id, (gateway_id, router_id, client_id), request_id
        )
        if answered.finished is not None:
            engine_id = bits(64).to_bytes(8, "big")
            self._engine_span(
                planned, answered.replica, answered.finished, trace_id, (client_id, engine_id),
                request_id,
            )  # fmt: skip

    def alive(self, start: float, end: float) -> None:
        """Write that every process was there from `start` to `end`."""
        settings = self._settings
        role = names.ROLE
        self._alive(self._gateway(start), text(role, names.GATEWAY_ROLE), start, end)
        self._alive(self._router, text(role, names.ROUTER_ROLE), start, end)
        hardware = (
            text(role, names.ENGINE_ROLE)
            + text(names.REQUEST_MODEL, settings.model)
            + text(names.GPU_TYPE, settings.gpu_type)
            + integer(names.GPU_COUNT, settings.gpu_count)
        )
        for engine in self._engines:
            self._alive(engine, hardware, start, end)

    def _alive(self, resource: bytes, attributes: bytes, start: float, end: float) -> None:
        bits = self._rng.getrandbits
        self._spans[resource, names.STACK_SCOPE].append(
            otlp_bytes.span(
                bits(128).to_bytes(16, "big"),
                bits(64).to_bytes(8, "big"),
                b"",
                span_head(names.ALIVE_SPAN, INTERNAL),
                self._ns(start),
                self._ns(end),
                attributes,
            )
        )

    def _gateway_span(
        self,
        planned: Planned,
        answered: Answered,
        trace_id: bytes,
        span_id: bytes,
        request_id: bytes,
    ) -> None:
        customer, outcome = planned.customer, answered.outcome
        pieces = [
            text(names.ROLE, names.GATEWAY_ROLE),
            text(names.METHOD, "POST"),
            text(names.ROUTE, customer.path),
            text(names.OPERATION, OPERATIONS[customer.path]),
            once(names.REQUEST_ID, request_id),
            text(names.FEATURE, planned.feature),
            text(names.TENANT, customer.tenant),
            text(names.PRIORITY, customer.priority),
            text(names.REQUEST_MODEL, self._settings.model),
            boolean(names.STREAM, planned.stream),
            text(names.USER, planned.user),
            integer(names.STATUS, answered.status),
            text(names.OUTCOME, outcome.label.value),
            text(names.OUTCOME_REASON, outcome.reason.value),
        ]
        if outcome.error_type is not None:
            pieces.append(text(names.ERROR_TYPE, outcome.error_type))
        if planned.stream and answered.first_token_at is not None:
            ttft_s = answered.first_token_at + 2 * BACK_S - planned.at
            pieces.append(double(names.SERVER_TTFT, ttft_s))
        if answered.finished is not None:
            pieces += _usage(answered.finished)
            gaps = answered.finished.output_tokens - 1
            if planned.stream and gaps > 0:  # an even pace: single steps are not played
                pieces.append(double(names.SERVER_ITL_P95, answered.finished.decode_s / gaps))
            pieces.append(text(names.RESPONSE_MODEL, self._settings.model))
            pieces.append(texts(names.FINISH_REASONS, (_finish_reason(planned),)))
        elif planned.stream and answered.first_token_at is not None:
            pieces.append(text(names.RESPONSE_MODEL, self._settings.model))
        is_bad = outcome.label is Label.BAD
        status = status_error(outcome.reason.value) if is_bad else STATUS_UNSET
        self._spans[self._gateway(planned.at), names.STACK_SCOPE].append(
            otlp_bytes.span(
                trace_id,
                span_id,
                b"",
                span_head(f"POST {customer.path}", SERVER),
                self._ns(planned.at),
                self._ns(answered.end + 2 * BACK_S),
                b"".join(pieces),
                status + LOCAL_PARENT,
            )
        )

    def _router_spans(
        self,
        planned: Planned,
        answered: Answered,
        trace_id: bytes,
        ids: tuple[bytes, bytes, bytes],
        request_id: bytes,
    ) -> None:
        gateway_id, router_id, client_id = ids
        path, replica = planned.customer.path, answered.replica or 0
        head = f"POST {path}"
        left = text(names.ERROR_TYPE, "client_gone") if answered.finished is None else b""
        # A whole answer that never came has no status; a stream's head came at once.
        head_came = answered.finished is not None or planned.stream
        status = integer(names.STATUS, 200) if head_came else b""
        server = b"".join(
            (
                text(names.ROLE, names.ROUTER_ROLE),
                text(names.METHOD, "POST"),
                text(names.ROUTE, path),
                once(names.REQUEST_ID, request_id),
                text(names.REQUEST_MODEL, self._settings.model),
                text(names.DECISION, answered.decision),
                left,
                status,
            )
        )
        client = b"".join(
            (
                text(names.ROLE, names.ROUTER_ROLE),
                text(names.METHOD, "POST"),
                integer(names.ATTEMPT, 1),
                text(names.SERVER_ADDRESS, "127.0.0.1"),
                integer(names.SERVER_PORT, 8000 + replica),
                text(names.REPLICA, self._settings.replicas[replica]),
                status,
                left,
            )
        )
        self._spans[self._router, names.STACK_SCOPE] += (
            otlp_bytes.span(
                trace_id,
                router_id,
                gateway_id,
                span_head(head, SERVER),
                self._ns(planned.at + TO_ROUTER_S),
                self._ns(answered.end + 1.5 * BACK_S),
                server,
                _REMOTE_OK,
            ),
            otlp_bytes.span(
                trace_id,
                client_id,
                router_id,
                span_head(head, CLIENT),
                self._ns(planned.at + TO_WORKER_S),
                self._ns(answered.end + BACK_S),
                client,
                _LOCAL_OK,
            ),
        )

    def _engine_span(
        self,
        planned: Planned,
        replica: int,
        end: Finished,
        trace_id: bytes,
        ids: tuple[bytes, bytes],
        request_id: bytes,
    ) -> None:
        client_id, engine_id = ids
        arrived_at = planned.at + TO_ENGINE_S
        is_chat = planned.customer.path == names.CHAT_PATH
        engine_request_id = b"chatcmpl-" + request_id if is_chat else b"cmpl-" + request_id + b"-0"
        attributes = b"".join(
            (
                double(names.ENGINE_TTFT, end.first_token_at - arrived_at),
                double(names.ENGINE_E2E, end.at - arrived_at),
                double(names.ENGINE_QUEUE, end.queue_s),
                integer(names.ENGINE_PROMPT_TOKENS, end.prompt_tokens),
                integer(names.ENGINE_COMPLETION_TOKENS, end.output_tokens),
                double(names.ENGINE_PREFILL, end.prefill_s),
                double(names.ENGINE_DECODE, end.decode_s),
                double(names.ENGINE_INFERENCE, end.prefill_s + end.decode_s),
                once(names.REQUEST_ID, engine_request_id),
                double(names.ENGINE_TOP_P, 1.0),
                integer(names.ENGINE_MAX_TOKENS, planned.max_tokens),
                integer(names.ENGINE_N, 1),
                double(names.ENGINE_TEMPERATURE, 1.0),
            )
        )
        self._spans[self._engines[replica], names.ENGINE_SCOPE].append(
            otlp_bytes.span(
                trace_id,
                engine_id,
                client_id,
                span_head(names.ENGINE_SPAN, SERVER),
                self._ns(arrived_at),
                self._ns(end.at + BACK_S / 2),
                attributes,
                _REMOTE_OK,
            )
        )

    def _gateway(self, at: float) -> bytes:
        version = version_at(self._settings, at)
        if version not in self._gateways:
            self._gateways[version] = _resource(
                names.GATEWAY_SERVICE, self._settings.gateway, {names.SERVICE_VERSION: version}
            )
        return self._gateways[version]

    def _ns(self, at: float) -> int:
        return self._zero_ns + round(at * 1e6) * 1000


def _resource(service: str, instance: str, more: dict[str, str] | None = None) -> bytes:
    own = {names.SERVICE_NAME: service, names.SERVICE_INSTANCE: instance, **(more or {})}
    sdk = {
        k: str(v) for k, v in Resource.create({}).attributes.items() if k.startswith("telemetry")
    }
    return otlp_bytes.resource({**sdk, **own})


def _usage(end: Finished) -> Iterable[bytes]:
    return (
        integer(names.INPUT_TOKENS, end.prompt_tokens),
        integer(names.OUTPUT_TOKENS, end.output_tokens),
        integer(names.CACHED_TOKENS, end.cached_tokens),
    )


def _finish_reason(planned: Planned) -> str:
    return "length" if planned.output_tokens >= planned.max_tokens else "stop"
