"""The gateway: OpenAI-compatible at the front, the tenant's limits and the policy in the middle.

Every request that reaches a completion path leaves exactly one span and one count, whether it
was answered, refused, cut, or given up by its client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from opentelemetry.trace import Span, Tracer
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from base.clock import Clock
from base.durations import format_instant
from base.errors import BadInput
from base.ids import new_id
from base.selfmon import Log
from stack.gateway.admission import Admission, NoPolicy, Refusal
from stack.gateway.limits import Limiter
from stack.gateway.metrics import GatewayMetrics
from stack.gateway.policy_client import PolicyClient
from stack.gateway.relay import ask_upstream, cut_stream, pass_stream, pass_whole
from stack.gateway.room import Room, RoomFull
from stack.gateway.span import describe_ask, finish_span, start_span
from stack.gateway.tenants import Tenant, TenantBook
from stack.registry.catalog import Catalog
from stack.wire import names
from stack.wire.asgi import (
    BodyTooLarge,
    ClientLeft,
    Reply,
    header_map,
    read_body,
    while_present,
)
from stack.wire.openai_api import OPERATIONS, Ask, parse_ask, upstream_body
from stack.wire.outcome import CLIENT_CLOSED, Outcome, Reason, client_gone, failed
from stack.wire.serving import background
from stack.wire.sse import AnswerFacts
from stack.wire.trace_context import inject
from stack.wire.upstream import Upstream

log = Log(__name__)

ENGINE_PRIORITY: Mapping[str, int] = {"interactive": 0, "batch": 10}


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """`patience_s` is how long a client that leaves must have waited for it to be our fault."""

    router_url: str
    name: str = "demo"
    places: int = 256
    waiting: int = 512
    longest_wait_s: float = 10.0
    request_timeout_s: float = 120.0
    patience_s: float = 10.0
    max_body_bytes: int = 16 * 1024 * 1024
    engine_priority: bool = False


@dataclass(slots=True)
class _Call:
    """What is known of one request while it is handled."""

    request_id: str
    path: str
    headers: Mapping[str, str]
    span: Span
    started: float
    facts: AnswerFacts = field(default_factory=AnswerFacts)
    tenant: str = ""


class Gateway:
    """The application and its background work. `tracer` and `clock` are the caller's."""

    def __init__(
        self,
        settings: GatewaySettings,
        tenants: TenantBook,
        catalog: Catalog,
        tracer: Tracer,
        clock: Clock,
        *,
        policy: PolicyClient | None = None,
    ) -> None:
        self._settings = settings
        self._tracer = tracer
        self._clock = clock
        self._catalog = catalog
        self._policy = policy
        self._limiter = Limiter(clock)
        self._admission = Admission(tenants, catalog, self._limiter, policy or NoPolicy())
        self._room = Room(settings.places, settings.waiting, settings.longest_wait_s)
        self._upstream = Upstream()
        self.metrics = GatewayMetrics()
        self.metrics.watch("active_requests", "Inside now", lambda: self._room.inside)
        self.metrics.watch("waiting_requests", "Waiting for a place", lambda: self._room.waiting)
        if policy is not None:
            self.metrics.watch("policy_rules", "Rules in force", lambda: len(policy.rules))
            self.metrics.watch("policy_version", "Version in force", lambda: policy.version)
            self.metrics.watch(
                "policy_silence_seconds",
                "Since the control plane last answered; -1 before the first time",
                lambda: -1 if policy.silence_s is None else policy.silence_s,
            )
        self.app = Starlette(
            routes=[
                *(Route(path, _Endpoint(self)) for path in OPERATIONS),
                Route("/v1/models", self._models),
                Route("/policy", self._show_policy),
                Route("/metrics", self._show_metrics),
                Route("/health", _health),
            ]
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep catalog and policy current for the block."""
        loops = [self._catalog.run(), *([self._policy.run()] if self._policy else [])]
        async with background(*loops):
            yield
        self._upstream.close()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one completion request."""
        headers = header_map(scope)
        request_id = new_id(self._clock)
        call = _Call(
            request_id=request_id,
            path=scope["path"],
            headers=headers,
            span=start_span(self._tracer, headers, scope["path"], request_id),
            started=self._clock.monotonic(),
        )
        reply = Reply(send, {"x-request-id": request_id})
        # What stands if the process is stopped in the middle of this request.
        outcome = failed(Reason.INTERNAL_ERROR, "shutdown")
        try:
            outcome = await self._serve(call, receive, reply)
        except Refusal as refusal:
            outcome = refusal.outcome
            await reply.whole(
                refusal.status,
                refusal.body,
                {"content-type": "application/json", **refusal.headers},
            )
        except ClientLeft:
            outcome = client_gone(self._elapsed(call), call.facts.ttft_s, self._settings.patience_s)
        except Exception as error:
            outcome = failed(Reason.INTERNAL_ERROR, type(error).__name__)
            log.exception("request_failed", request_id=request_id)
            raise
        finally:
            unsent = CLIENT_CLOSED if outcome.reason is Reason.CLIENT_GONE else 500
            finish_span(call.span, outcome, reply.status or unsent, call.facts)
            self.metrics.count(call.tenant, outcome, call.facts, self._elapsed(call))

    async def _serve(self, call: _Call, receive: Receive, reply: Reply) -> Outcome:
        tenant = self._admission.caller(call.headers)
        call.tenant = tenant.id
        call.span.set_attribute(names.TENANT, tenant.id)
        priority = _priority(tenant, call.headers)
        call.span.set_attribute(names.PRIORITY, priority)
        ask = await self._read(call, receive)
        describe_ask(call.span, ask, call.headers)
        self._admission.admit(tenant, ask, call.request_id, priority)
        self._limiter.start(tenant, ask.prompt_tokens)
        try:
            reply.headers.update(self._limiter.headers(tenant))
            return await while_present(receive, self._relay(call, ask, priority, reply))
        finally:
            self._limiter.finish(tenant, ask.prompt_tokens, _used(call.facts))

    async def _read(self, call: _Call, receive: Receive) -> Ask:
        try:
            return parse_ask(call.path, await read_body(receive, self._settings.max_body_bytes))
        except (BadInput, BodyTooLarge) as error:
            raise Refusal(
                413 if isinstance(error, BodyTooLarge) else 400,
                str(error),
                kind="invalid_request_error",
                code="invalid_request",
                reason=Reason.CLIENT_ERROR,
            ) from error

    async def _relay(self, call: _Call, ask: Ask, priority: str, reply: Reply) -> Outcome:
        try:
            async with asyncio.timeout(self._deadline_s(call)), self._room.place(call.tenant):
                answer = await ask_upstream(
                    self._upstream,
                    self._settings.router_url + ask.path,
                    {
                        "content-type": "application/json",
                        "x-request-id": call.request_id,
                        **inject(call.span),
                    },
                    upstream_body(
                        ask, ENGINE_PRIORITY[priority] if self._settings.engine_priority else None
                    ),
                )
                with answer:
                    if answer.status != httpx.codes.OK or not ask.stream:
                        return await pass_whole(answer, reply, call.facts)
                    return await pass_stream(
                        answer,
                        reply,
                        call.facts,
                        lambda: self._elapsed(call),
                        pass_usage=ask.wants_usage,
                    )
        except TimeoutError:
            if reply.started:
                return await cut_stream(reply, Reason.TIMEOUT, "the request took too long")
            raise Refusal(
                504,
                "no answer in time",
                kind="timeout_error",
                code="timeout",
                reason=Reason.TIMEOUT,
            ) from None
        except RoomFull as full:
            raise Refusal(
                429,
                f"at capacity: {full}",
                kind="overloaded_error",
                code="capacity",
                reason=Reason.CAPACITY,
                headers={"retry-after": "1"},
            ) from full

    def _deadline_s(self, call: _Call) -> float:
        """Take the client's own limit when it is the shorter one."""
        try:
            asked = float(call.headers.get("x-request-timeout", "inf"))
        except ValueError:
            asked = float("inf")
        return min(self._settings.request_timeout_s, asked if asked > 0 else float("inf"))

    def _elapsed(self, call: _Call) -> float:
        return self._clock.monotonic() - call.started

    async def _models(self, request: Request) -> Response:
        try:
            self._admission.caller(request.headers)
        except Refusal as refusal:
            return Response(
                refusal.body, refusal.status, refusal.headers, media_type="application/json"
            )
        data = [
            {"id": name, "object": "model", "owned_by": "tokenweir"}
            for name in self._catalog.entries or ()
        ]
        return JSONResponse({"object": "list", "data": data})

    async def _show_policy(self, _request: Request) -> Response:
        if self._policy is None:
            return JSONResponse({"gateway": self._settings.name, "source": None, "rules": []})
        return JSONResponse(
            {
                "gateway": self._settings.name,
                "version": self._policy.version,
                "silence_s": self._policy.silence_s,
                "failures": self._policy.failures,
                "now": format_instant(self._clock.now()),
                "rules": [rule.model_dump(mode="json") for rule in self._policy.rules],
            }
        )

    async def _show_metrics(self, _request: Request) -> Response:
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_LATEST)


class _Endpoint:
    """An ASGI application, not a function, so that Starlette hands over `receive` and `send`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await Response("use POST", 405, {"allow": "POST"})(scope, receive, send)
            return
        await self._gateway.handle(scope, receive, send)


def _priority(tenant: Tenant, headers: Mapping[str, str]) -> str:
    """Let a caller put itself behind others, never ahead of them."""
    return "batch" if headers.get("x-priority") == "batch" else tenant.priority


def _used(facts: AnswerFacts) -> int | None:
    if facts.prompt_tokens is None:
        return None
    return facts.prompt_tokens + (facts.completion_tokens or 0)


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})
