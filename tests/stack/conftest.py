"""A collector, a fake engine, spans in memory; whatever is served is stopped again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from base.clock import Clock, SystemClock
from stack.gateway.app import Gateway, GatewaySettings
from stack.gateway.policy_client import PolicyClient
from stack.gateway.tenants import Tenant, TenantBook, from_keys
from stack.registry.catalog import Catalog
from stack.router.app import Router, RouterSettings
from stack.wire.asgi import header_map
from stack.wire.serving import Listener, listen

KEY = "sk-acme-secret-0123456789abcdef"
GLOBEX_KEY = "sk-globex-secret-0123456789abcdef"
MODEL = "tiny"
CHAT = "/v1/chat/completions"


class SpanBox:
    """Spans of one tracer, kept in memory as they end."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = provider.get_tracer("test")

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    async def only(self) -> ReadableSpan:
        """The one span; it may end a moment after the client has its answer."""
        (span,) = await self.first(1)
        return span

    async def first(self, count: int) -> list[ReadableSpan]:
        await eventually(lambda: len(self.all()) >= count)
        return self.all()


async def eventually(true: Callable[[], object], within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.005)


class Collector:
    """An OTLP/HTTP receiver in memory that can be told to refuse."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.refuse_with: list[int] = []
        self.url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status = self.refuse_with.pop(0) if self.refuse_with else 200
        self.headers.append(header_map(scope))
        if status == 200:
            assert scope["path"] == "/v1/traces"
            self.requests.append(ExportTraceServiceRequest.FromString(body))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def spans(self, name: str) -> Iterator[tuple[Any, Any, Any]]:
        """Yield (resource, scope, span) of every span called `name`."""
        for request in self.requests:
            for of_resource in request.resource_spans:
                for of_scope in of_resource.scope_spans:
                    for span in of_scope.spans:
                        if span.name == name:
                            yield of_resource.resource, of_scope.scope, span


@dataclass
class FakeEngine:
    """Answers as vLLM does; the prompt's first word chooses how.

    say N: N tokens; slow: waits for `release` before the first token; cut N: drops the
    connection after N tokens; status N: refuses; refused-stream: 200 and an error event;
    filtered: ends with content_filter.
    """

    release: asyncio.Event = field(default_factory=asyncio.Event)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    abandoned: int = 0
    healthy: bool = True
    digests: dict[str, str] | None = None

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route(CHAT, self.complete, methods=["POST"]),
                Route("/v1/completions", self.complete, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/version", lambda _r: JSONResponse({"version": "0.32.0"})),
                Route("/health", self.health),
            ]
        )

    async def health(self, _request: Request) -> Response:
        return Response(status_code=200 if self.healthy else 503)

    async def models(self, _request: Request) -> Response:
        entry: dict[str, Any] = {"id": MODEL, "object": "model"}
        if self.digests is not None:
            entry["digests"] = self.digests
        return JSONResponse({"object": "list", "data": [entry]})

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
        what, _, rest = prompt.partition(" ")
        number = int(rest.split()[0]) if rest and rest.split()[0].isdigit() else 3
        if what == "status":
            return JSONResponse({"error": {"message": "no", "code": number}}, number)
        if body.get("stream"):
            return StreamingResponse(
                self.stream(what, number, body), media_type="text/event-stream"
            )
        if what == "slow":
            await self.release.wait()
        finish = "content_filter" if what == "filtered" else "stop"
        return JSONResponse(
            {
                "model": MODEL,
                "choices": [{"message": {"content": "x" * number}, "finish_reason": finish}],
                "usage": usage(number),
            }
        )

    async def stream(self, what: str, number: int, body: dict[str, Any]) -> AsyncIterator[bytes]:
        if what == "refused-stream":
            yield event({"error": {"message": "queue is full", "type": "x", "code": 503}})
            yield b"data: [DONE]\n\n"
            return
        try:
            if what == "slow":
                await self.release.wait()
            yield chunk({"role": "assistant", "content": ""})
            for position in range(number):
                yield chunk({"content": f" {position}"})
                await asyncio.sleep(0)
            if what == "pause":
                await self.release.wait()
        except asyncio.CancelledError:
            self.abandoned += 1
            raise
        if what == "cut":
            raise ConnectionAbortedError
        finish = "content_filter" if what == "filtered" else "stop"
        yield chunk({}, finish)
        if (body.get("stream_options") or {}).get("include_usage"):
            yield event({"model": MODEL, "choices": [], "usage": usage(number)})
        yield b"data: [DONE]\n\n"


def usage(completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": 7,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": 4},
    }


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return event({"model": MODEL, "choices": [{"delta": delta, "finish_reason": finish}]})


def event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


class Bench:
    """Starts pieces of the stack on free ports."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.gateway_spans = SpanBox()
        self.router_spans = SpanBox()
        self.listeners: dict[str, Listener] = {}

    async def serve(self, app: Any) -> str:
        listener = await listen(app, drain_s=1)
        self.listeners[listener.url] = listener
        return listener.url

    async def stop(self) -> None:
        for listener in self.listeners.values():
            listener._server.force_exit = True  # nobody is served any more: do not wait
        await asyncio.gather(*(listener.stop() for listener in self.listeners.values()))

    async def engine(self) -> tuple[FakeEngine, str]:
        engine = FakeEngine()
        return engine, await self.serve(engine.app)

    async def gateway(
        self,
        router_url: str,
        *,
        tenants: TenantBook | None = None,
        policy: PolicyClient | None = None,
        clock: Clock | None = None,
        catalog: Catalog | None = None,
        **settings: Any,
    ) -> str:
        gateway = Gateway(
            GatewaySettings(router_url, **settings),
            tenants or from_keys([(KEY, Tenant("acme")), (GLOBEX_KEY, Tenant("globex"))]),
            catalog or Catalog(None, self.http),
            self.gateway_spans.tracer,
            clock or SystemClock(),
            policy=policy,
        )
        return await self.serve(gateway.app)

    async def router(
        self,
        *workers: str,
        settings: RouterSettings | None = None,
        catalog: Catalog | None = None,
    ) -> str:
        router = Router(
            settings or RouterSettings(startup_wait_s=1.0),
            catalog or Catalog(None, self.http),
            self.http,
            self.router_spans.tracer,
            SystemClock(),
        )
        self.the_router = router
        url = await self.serve(router.app)
        for worker in workers:
            (await self.http.post(f"{url}/add_worker", params={"url": worker})).raise_for_status()
        return url

    async def chat(self, url: str, prompt: str, *, key: str = KEY, **body: Any) -> httpx.Response:
        headers = body.pop("headers", {})
        return await self.http.post(
            url + CHAT,
            headers={"authorization": f"Bearer {key}", **headers},
            json={"model": MODEL, "messages": [{"role": "user", "content": prompt}], **body},
        )


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with AsyncExitStack() as exits:
        http = await exits.enter_async_context(httpx.AsyncClient(timeout=10, trust_env=False))
        made = Bench(http)
        exits.push_async_callback(made.stop)
        yield made


@pytest.fixture
def collector() -> Any:
    """An async context manager that gives a listening Collector."""

    @asynccontextmanager
    async def start() -> Any:
        made = Collector()
        listener = await listen(made)
        made.url = listener.url
        try:
            yield made
        finally:
            await listener.stop()

    return start


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[..., Any]:
    """Poll a condition until it holds, for at most ten seconds."""
    return eventually
