"""The router: sends each request to the worker that will answer it soonest, and says why.

Load is counted here, request by request, and not scraped: a scraped queue is old by the time it
is used, and stands still when the engine does. A failed connection is tried once elsewhere, as
long as no byte of an answer came and the caller has a retry left.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from base.clock import Clock
from base.selfmon import Log
from stack.registry.catalog import Catalog
from stack.router.admin import admin_routes
from stack.router.affinity import prefix_blocks
from stack.router.breaker import Circuit
from stack.router.choice import Balance, Choice, choose
from stack.router.metrics import POLICY, RouterMetrics
from stack.router.workers import HealthChecks, HealthRules, Worker, WorkerTable
from stack.wire import names
from stack.wire.asgi import (
    BodyTooLarge,
    ClientLeft,
    Reply,
    header_map,
    read_body,
    while_present,
)
from stack.wire.openai_api import error_body, estimate_tokens, prompt_pieces
from stack.wire.retries import RETRY_BUDGET, RETRY_HEADER
from stack.wire.serving import background
from stack.wire.trace_context import caller_context, inject
from stack.wire.upstream import Answer, AnswerCut, NoAnswer, Upstream

log = Log(__name__)

_PASSED_ON = ("content-type", "x-request-id", "accept")
_NOT_PASSED_BACK = {"connection", "keep-alive", "transfer-encoding", "server", "date"}


@dataclass(frozen=True, slots=True)
class RouterSettings:
    balance: Balance = field(default_factory=Balance)
    health: HealthRules = field(default_factory=HealthRules)
    max_concurrent: int = 1024
    max_body_bytes: int = 16 * 1024 * 1024
    startup_wait_s: float = 30.0


@dataclass(frozen=True, slots=True)
class _Job:
    """One request, read as far as routing needs."""

    path: str
    body: bytes
    headers: Mapping[str, str]
    model: str | None
    blocks: tuple[bytes, ...]
    tokens: int
    retries: int


class Router:
    """The application and its background work."""

    def __init__(
        self,
        settings: RouterSettings,
        catalog: Catalog,
        client: httpx.AsyncClient,
        tracer: Tracer,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._tracer = tracer
        self._clock = clock
        self._upstream = Upstream()
        self._active = 0
        self.metrics = RouterMetrics()
        self.workers = WorkerTable(clock, on_circuit=self._circuit_moved, on_gone=self._gone)
        self._checks = HealthChecks(self.workers, client, settings.health)
        self.app = Starlette(
            routes=admin_routes(
                self.workers, self.metrics, catalog, client, settings.startup_wait_s, self
            )
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Check workers and follow the registry for the block."""
        async with background(self._checks.run(), self._catalog.run()):
            yield
        self._upstream.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one completion request."""
        headers = header_map(scope)
        path: str = scope["path"]
        reply = Reply(send, {})
        started = self._clock.monotonic()
        self.metrics.requests.labels(path).inc()
        with self._tracer.start_as_current_span(
            f"POST {path}",
            context=caller_context(headers),
            kind=SpanKind.SERVER,
            attributes={
                names.ROLE: names.ROUTER_ROLE,
                names.METHOD: "POST",
                names.ROUTE: path,
                names.REQUEST_ID: headers.get("x-request-id", ""),
            },
        ) as span:
            self._active += 1
            try:
                job = _read(path, headers, await read_body(receive, self._settings.max_body_bytes))
                if job.model is not None:
                    span.set_attribute(names.REQUEST_MODEL, job.model)
                await while_present(receive, self._route(job, span, reply))
            except ClientLeft:
                self._fail(span, path, "client_gone")
            except BodyTooLarge as error:
                self._fail(span, path, "body_too_large")
                await _refuse(reply, 413, str(error), "body_too_large")
            finally:
                self._active -= 1
                if reply.status is not None:
                    span.set_attribute(names.STATUS, reply.status)
                self.metrics.duration.observe(self._clock.monotonic() - started)

    async def _route(self, job: _Job, span: Span, reply: Reply) -> None:
        if self._active > self._settings.max_concurrent:
            self._fail(span, job.path, "too_many_requests")
            await _refuse(reply, 429, "the router is at its limit", "capacity", retry_after="1")
            return
        tried: list[str] = []
        reasons: list[str] = []
        while True:
            options = self.workers.options(job.model, job.blocks, tried)
            choice = choose(options, len(job.blocks), self._settings.balance)
            if choice is None:
                reasons.append("no worker left" if tried else "no worker")
                span.set_attribute(names.DECISION, "; then ".join(reasons))
                await self._nobody(job, span, reply, tried=bool(tried))
                return
            reasons.append(f"{choice.stage} {choice.reason}")
            span.set_attribute(names.DECISION, "; then ".join(reasons))
            self._count_choice(choice)
            if await self._attempt(job, choice, span, reply, len(tried) + 1):
                return
            tried.append(choice.option.url)
            if len(tried) > job.retries:
                self._fail(span, job.path, "worker_unreachable")
                await _refuse(reply, 502, "the worker does not answer", "worker_unreachable")
                return
            self.metrics.retries.labels(job.path).inc()

    async def _attempt(
        self, job: _Job, choice: Choice, span: Span, reply: Reply, number: int
    ) -> bool:
        """Try one worker. False: no byte came, another may be tried."""
        url = choice.option.url
        with (
            self.workers.sending(url, job.tokens, job.blocks) as worker,
            self._tracer.start_as_current_span(
                f"POST {job.path}",
                context=set_span_in_context(span),
                kind=SpanKind.CLIENT,
                attributes={
                    names.ROLE: names.ROUTER_ROLE,
                    names.METHOD: "POST",
                    names.ATTEMPT: number,
                    names.SERVER_ADDRESS: worker.host,
                    names.SERVER_PORT: worker.port,
                    names.REPLICA: worker.name,
                },
            ) as client_span,
        ):
            decided = False
            try:
                answer = await self._upstream.send(
                    "POST", url + job.path, {**job.headers, **inject(client_span)}, job.body
                )
                with answer:
                    client_span.set_attribute(names.STATUS, answer.status)
                    await _pass_back(answer, reply)
                decided = True
                self._judge(worker, ok=answer.status != 500)
            except (NoAnswer, AnswerCut) as error:
                decided = True
                self._judge(worker, ok=False)
                what = "connection_failed" if isinstance(error, NoAnswer) else "stream_cut"
                client_span.set_attribute(names.ERROR_TYPE, what)
                client_span.set_status(StatusCode.ERROR, str(error))
                if isinstance(error, NoAnswer):
                    return False
                self._fail(span, job.path, what)
                await _break_off(reply)
            finally:
                if not decided:  # cancelled: the client left
                    worker.breaker.undecided()
                    client_span.set_attribute(names.ERROR_TYPE, "client_gone")
            return True

    async def _nobody(self, job: _Job, span: Span, reply: Reply, *, tried: bool) -> None:
        known = job.model is None or job.model in self.workers.models()
        if not known and self._catalog.entries and job.model not in self._catalog.entries:
            self._fail(span, job.path, "model_not_found")
            await _refuse(reply, 404, f"no worker serves {job.model!r}", "model_not_found")
            return
        self._fail(span, job.path, "no_worker")
        message = "no other worker to try" if tried else "no worker is ready"
        await _refuse(reply, 503, message, "no_worker", retry_after="2")

    def _judge(self, worker: Worker, *, ok: bool) -> None:
        if ok:
            worker.breaker.succeeded()
        else:
            worker.breaker.failed(self._clock.monotonic())
        self.metrics.processed.labels(worker.url).inc()
        self.metrics.circuit_outcomes.labels(worker.url, "success" if ok else "failure").inc()

    def _count_choice(self, choice: Choice) -> None:
        self.metrics.decisions.labels(POLICY, choice.option.url).inc()
        self.metrics.prefix.labels(POLICY, "regular", choice.stage).inc()
        if choice.stage == "load_imbalance":
            self.metrics.balanced.inc()

    def _fail(self, span: Span, path: str, error_type: str) -> None:
        span.set_attribute(names.ERROR_TYPE, error_type)
        if error_type != "client_gone":
            span.set_status(StatusCode.ERROR, error_type)
        self.metrics.errors.labels(path, error_type).inc()

    def _circuit_moved(self, url: str, was: Circuit, now: Circuit) -> None:
        self.metrics.circuit_moves.labels(url, was.value, now.value).inc()
        log.warning("circuit", url=url, was=was.value, now=now.value)

    def _gone(self, url: str) -> None:
        self._upstream.forget(url)
        self.metrics.forget(url)


def _read(path: str, headers: Mapping[str, str], body: bytes) -> _Job:
    """Read what routing needs; a body that is no JSON goes on, for the engine says it best."""
    try:
        document: Any = json.loads(body)
    except ValueError:
        document = None
    asked = document if isinstance(document, dict) else {}
    model = asked.get("model")
    pieces = list(prompt_pieces(asked))
    left = headers.get(RETRY_HEADER, "")
    return _Job(
        path=path,
        body=body,
        headers={name: headers[name] for name in _PASSED_ON if name in headers},
        model=model if isinstance(model, str) else None,
        blocks=prefix_blocks(str(model), pieces),
        tokens=estimate_tokens(sum(map(len, pieces))),
        retries=min(RETRY_BUDGET, int(left)) if left.isdigit() else RETRY_BUDGET,
    )


async def _pass_back(answer: Answer, reply: Reply) -> None:
    headers = {k: v for k, v in answer.headers.items() if k not in _NOT_PASSED_BACK}
    await reply.start(answer.status, headers)
    async with aclosing(answer.chunks()) as chunks:
        async for chunk in chunks:
            await reply.piece(chunk)
    await reply.end()


async def _refuse(
    reply: Reply, status: int, message: str, code: str, *, retry_after: str | None = None
) -> None:
    headers = {"content-type": "application/json"}
    if retry_after is not None:
        headers["retry-after"] = retry_after
    await reply.whole(status, error_body(message, "api_error", code), headers)


async def _break_off(reply: Reply) -> None:
    """Give up an answer that was cut.

    An answer that had begun is left unfinished: the server then drops the connection, and the
    caller sees a break and not an end.
    """
    if not reply.started:
        await _refuse(reply, 502, "the worker's answer broke off", "answer_cut")
