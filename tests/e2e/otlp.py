"""Spans as gateways, routers and engines send them, from plain values."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

INTERNAL, SERVER, CLIENT = 1, 2, 3
SECOND = 1_000_000_000
MS = 1_000_000
CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Sent:
    """One span and the process that sends it."""

    service: str
    instance: str
    span: Span
    resource: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[bytes, bytes]:
        return self.span.trace_id, self.span.span_id


def span(
    trace_id: bytes,
    span_id: bytes,
    name: str,
    start_ns: int,
    end_ns: int,
    attributes: Mapping[str, Any],
    *,
    parent: bytes = b"",
    kind: int = INTERNAL,
    is_error: bool = False,
) -> Span:
    made = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent,
        name=name,
        kind=kind,  # type: ignore[arg-type]
        start_time_unix_nano=start_ns,
        end_time_unix_nano=end_ns,
        attributes=pairs(attributes),
    )
    if is_error:
        made.status.code = 2  # type: ignore[assignment]
    return made


def gateway_span(
    trace_id: bytes,
    span_id: bytes,
    start_ns: int,
    duration_ms: float,
    *,
    tenant: str = "acme",
    route: str = CHAT,
    model: str = "tiny",
    status: int = 200,
    instance: str = "gw-0",
    **attributes: Any,
) -> Sent:
    """`attributes` are added with their dots written as double underscores."""
    given = {
        "tokenweir.role": "gateway",
        "tenant.id": tenant,
        "http.route": route,
        "http.request.method": "POST",
        "http.response.status_code": status,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        **{name.replace("__", "."): value for name, value in attributes.items()},
    }
    end = start_ns + round(duration_ms * MS)
    made = span(trace_id, span_id, f"POST {route}", start_ns, end, given, kind=SERVER)
    return Sent("tokenweir-gateway", instance, made)


def router_span(
    trace_id: bytes, span_id: bytes, parent: bytes, start_ns: int, duration_ms: float
) -> Sent:
    given = {"tokenweir.role": "router", "tokenweir.decision": "least queued"}
    end = start_ns + round(duration_ms * MS)
    made = span(trace_id, span_id, f"POST {CHAT}", start_ns, end, given, parent=parent, kind=SERVER)
    return Sent("tokenweir-router", "rt-0", made)


def try_span(
    trace_id: bytes,
    span_id: bytes,
    parent: bytes,
    start_ns: int,
    duration_ms: float,
    *,
    attempt: int,
    status: int,
    replica: str,
) -> Sent:
    given = {
        "tokenweir.role": "router",
        "tokenweir.attempt": attempt,
        "tokenweir.replica": replica,
        "http.response.status_code": status,
    }
    end = start_ns + round(duration_ms * MS)
    made = span(trace_id, span_id, f"POST {CHAT}", start_ns, end, given, parent=parent, kind=CLIENT)
    return Sent("tokenweir-router", "rt-0", made)


def engine_span(
    trace_id: bytes,
    span_id: bytes,
    parent: bytes,
    start_ns: int,
    *,
    queue_ms: float,
    prefill_ms: float,
    decode_ms: float,
    prompt: int,
    completion: int,
    replica: str = "r0",
    request_id: str = "cmpl-0",
    model: str = "tiny",
) -> Sent:
    e2e_ms = queue_ms + prefill_ms + decode_ms
    given = {
        "gen_ai.latency.time_in_queue": queue_ms / 1000,
        "gen_ai.latency.time_in_model_prefill": prefill_ms / 1000,
        "gen_ai.latency.time_in_model_decode": decode_ms / 1000,
        "gen_ai.latency.time_in_model_inference": (prefill_ms + decode_ms) / 1000,
        "gen_ai.latency.time_to_first_token": (queue_ms + prefill_ms) / 1000,
        "gen_ai.latency.e2e": e2e_ms / 1000,
        "gen_ai.usage.prompt_tokens": prompt,
        "gen_ai.usage.completion_tokens": completion,
        "gen_ai.request.id": request_id,
    }
    end = start_ns + round(e2e_ms * MS)
    made = span(trace_id, span_id, "llm_request", start_ns, end, given, parent=parent, kind=SERVER)
    return Sent("vllm", replica, made, {"gen_ai.request.model": model})


def alive_span(
    rng: random.Random,
    role: str,
    service: str,
    instance: str,
    start_ns: int,
    end_ns: int,
    **attributes: Any,
) -> Sent:
    given = {
        "tokenweir.role": role,
        **{name.replace("__", "."): value for name, value in attributes.items()},
    }
    made = span(rng.randbytes(16), rng.randbytes(8), "tokenweir.alive", start_ns, end_ns, given)
    return Sent(service, instance, made)


def export(sent: Iterable[Sent]) -> ExportTraceServiceRequest:
    """Put spans in one request, grouped by sender as an SDK does."""
    request = ExportTraceServiceRequest()
    places: dict[tuple[Any, ...], ResourceSpans] = {}
    for each in sent:
        key = (each.service, each.instance, tuple(sorted(each.resource.items())))
        if key not in places:
            place = request.resource_spans.add()
            place.resource.attributes.extend(
                pairs(
                    {
                        "service.name": each.service,
                        "service.instance.id": each.instance,
                        **each.resource,
                    }
                )
            )
            place.scope_spans.add()
            places[key] = place
        places[key].scope_spans[0].spans.append(each.span)
    return request


def pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=name, value=_value(value)) for name, value in attributes.items()]


def _value(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case Sequence():
            return AnyValue(array_value=ArrayValue(values=[_value(each) for each in value]))
        case _:
            raise TypeError(f"no OTLP value for {value!r}")
