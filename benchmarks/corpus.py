"""Synthetic LLM traffic as OTLP: fast to make, new trace ids and times in every request.

One call is four spans (gateway, router, router's try, engine), about 19 attributes a span with
their resources. A few templates are built as messages; a request is a copy of one in which trace
ids and times are overwritten in place.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

CALLS = 128
SPANS = 4 * CALLS

_TENANTS = [f"tenant-{number:02d}" for number in range(40)]
_ROUTES = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]
_MODELS = ["llama-3.3-70b", "qwen3-32b", "mistral-small-24b", "gpt-oss-120b"]
_FEATURES = ["search", "summarise", "agent", "autocomplete", "support", "review", "etl"]
_ORDINARY: dict[str, object] = {  # what instrumentations add, and nobody here asks for
    "thread.id": 140_234_112,
    "thread.name": "worker-3",
    "network.protocol.version": "1.1",
    "url.scheme": "https",
    "client.address": "10.1.2.3",
    "user_agent.original": "OpenAI/Python 2.7.1",
    "code.function.name": "handle",
}
_NANO = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Template:
    """A request, and where its trace ids and times are."""

    body: bytes
    calls: tuple[tuple[int, ...], ...]  # per call, the offsets of its trace id
    times: tuple[tuple[int, int], ...]  # offset, nanoseconds after the request's own start


class Corpus:
    """An endless supply of requests of SPANS spans."""

    def __init__(self, seed: int = 7, templates: int = 16) -> None:
        self._random = random.Random(seed)
        self._templates = [_template(self._random) for _ in range(templates)]

    @property
    def bytes_per_span(self) -> float:
        return sum(len(t.body) for t in self._templates) / len(self._templates) / SPANS

    def request(self, start_ns: int) -> bytes:
        """Make the next request; its calls start within ten seconds after `start_ns`."""
        template = self._random.choice(self._templates)
        body = bytearray(template.body)
        for offsets in template.calls:
            trace_id = self._random.randbytes(16)
            for offset in offsets:
                body[offset : offset + 16] = trace_id
        for offset, after_ns in template.times:
            _NANO.pack_into(body, offset, start_ns + after_ns)
        return bytes(body)


def _template(rng: random.Random) -> Template:
    base_ns = 1 << 60  # so that every time is a byte pattern that occurs nowhere else
    request = ExportTraceServiceRequest()
    scopes = {
        name: _scope(request, name, instance, role)
        for name, instance, role in (
            ("tokenweir-gateway", "gw-0", "gateway"),
            ("tokenweir-router", "router-0", "router"),
            ("vllm", f"r{rng.randrange(4)}", "engine"),
        )
    }
    trace_ids = [rng.randbytes(16) for _ in range(CALLS)]
    for trace_id in trace_ids:
        _call(rng, scopes, trace_id, base_ns + rng.randrange(10_000_000_000))
    body = request.SerializeToString()
    times = sorted(set(_times(request)))
    return Template(
        body,
        calls=tuple(tuple(_find_all(body, trace_id)) for trace_id in trace_ids),
        times=tuple((at, ns - base_ns) for ns in times for at in _find_all(body, _NANO.pack(ns))),
    )


def _scope(request: ExportTraceServiceRequest, name: str, instance: str, role: str) -> list[Span]:
    resource = request.resource_spans.add()
    _set(
        resource.resource,
        {
            "service.name": name,
            "service.instance.id": instance,
            "service.version": "2.7.1",
            "deployment.environment.name": "prod",
            "telemetry.sdk.language": "python",
            "telemetry.sdk.name": "opentelemetry",
            "tokenweir.role": role,
        },
    )
    scope = resource.scope_spans.add()
    scope.scope.name = f"{name}.tracing"
    return scope.spans  # type: ignore[return-value]


def _call(rng: random.Random, scopes: dict[str, list[Span]], trace_id: bytes, start: int) -> None:
    model, route = rng.choice(_MODELS), rng.choice(_ROUTES)
    prompt, output = int(rng.lognormvariate(6.5, 1)), int(rng.lognormvariate(5, 0.8)) + 1
    ttft, queue = rng.lognormvariate(-1, 0.6), rng.expovariate(20)
    e2e = ttft + output * rng.uniform(0.008, 0.03)
    failed = rng.random() < 0.01
    status = 503 if failed else 200
    request_id = f"chatcmpl-{rng.getrandbits(128):032x}"
    shared = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.output_tokens": output,
        "http.response.status_code": status,
        "http.request.method": "POST",
    }

    def add(service: str, kind: int, name: str, begin: float, end: float, parent: bytes) -> Span:
        span = scopes[service].add(  # type: ignore[attr-defined]
            trace_id=trace_id,
            span_id=rng.randbytes(8),
            parent_span_id=parent,
            name=name,
            kind=kind,
            start_time_unix_nano=start + int(begin * e2e * 1e9),
            end_time_unix_nano=start + int(end * e2e * 1e9),
        )
        if failed:
            span.status.code = 2
        _set(span, _ORDINARY)
        return span  # type: ignore[no-any-return]

    gateway = add("tokenweir-gateway", 2, f"POST {route}", 0, 1, b"")
    _set(
        gateway,
        shared
        | {
            "tenant.id": _TENANTS[min(int(rng.paretovariate(1.1)) - 1, 39)],
            "user.id": f"user-{rng.randrange(20_000):05d}",
            "feature": rng.choice(_FEATURES),
            "http.route": route,
            "gen_ai.usage.cache_read.input_tokens": prompt // 2 if rng.random() < 0.4 else 0,
            "gen_ai.server.time_to_first_token": ttft,
            "gen_ai.request.id": request_id,
            "gen_ai.request.stream": rng.random() < 0.6,
            "tokenweir.priority": "interactive",
            "server.address": "llm.example.com",
        },
    )
    router = add("tokenweir-router", 2, f"POST {route}", 0.01, 0.99, gateway.span_id)
    _set(router, shared | {"tokenweir.decision": "prefix hit", "http.route": route})
    attempt = add("tokenweir-router", 3, "POST", 0.02, 0.98, router.span_id)
    _set(attempt, shared | {"tokenweir.attempt": 1, "server.address": "10.0.0.7"})
    engine = add("vllm", 2, "llm_request", 0.03, 0.97, attempt.span_id)
    _set(
        engine,
        {
            "gen_ai.request.id": request_id,
            "gen_ai.request.max_tokens": 1024,
            "gen_ai.request.temperature": 0.7,
            "gen_ai.request.top_p": 1.0,
            "gen_ai.request.n": 1,
            "gen_ai.usage.prompt_tokens": prompt,
            "gen_ai.usage.completion_tokens": output,
            "gen_ai.latency.time_in_queue": queue,
            "gen_ai.latency.time_to_first_token": ttft,
            "gen_ai.latency.e2e": e2e,
            "gen_ai.latency.time_in_model_prefill": ttft * 0.6,
            "gen_ai.latency.time_in_model_decode": e2e - ttft,
            "gen_ai.latency.time_in_model_inference": e2e - queue,
        },
    )


def _set(owner: object, values: dict[str, object]) -> None:
    for key, value in values.items():
        target = owner.attributes.add(key=key).value  # type: ignore[attr-defined]
        if isinstance(value, bool):
            target.bool_value = value
        elif isinstance(value, int):
            target.int_value = value
        elif isinstance(value, float):
            target.double_value = value
        else:
            target.string_value = str(value)


def _times(request: ExportTraceServiceRequest) -> Iterator[int]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield span.start_time_unix_nano
                yield span.end_time_unix_nano


def _find_all(body: bytes, pattern: bytes) -> Iterator[int]:
    at = body.find(pattern)
    while at >= 0:
        yield at
        at = body.find(pattern, at + 1)
