"""The HTTP face of a simulated engine: vLLM's paths, answers and ways of refusing."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Tracer
from starlette.types import Receive, Scope, Send

from base.clock import Clock
from stack.engine import bodies
from stack.engine.completions import Generation, Reader, Refused
from stack.engine.core import EngineCore, Ticket
from stack.engine.metrics import AskedFor, EngineMetrics
from stack.engine.pages import EnginePages
from stack.engine.sequence import Finished
from stack.engine.settings import EngineSettings
from stack.engine.spans import emit_llm_request, llm_request_attributes
from stack.wire.asgi import (
    BodyTooLarge,
    ClientLeft,
    Reply,
    header_map,
    read_body,
    while_present,
)
from stack.wire.names import CHAT_PATH, COMPLETIONS_PATH
from stack.wire.otel import unix_nano
from stack.wire.trace_context import extract

MAX_BODY_BYTES = 64 * 1024 * 1024
_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


class EngineApp:
    """An ASGI application over one engine core."""

    def __init__(
        self,
        settings: EngineSettings,
        core: EngineCore,
        metrics: EngineMetrics,
        tracer: Tracer,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._core = core
        self._metrics = metrics
        self._tracer = tracer
        self._clock = clock
        self._unix_zero_ns = unix_nano(clock.now()) - round(clock.monotonic() * 1e9)
        self._reader = Reader(
            settings.model,
            settings.max_model_len,
            settings.limits.block_size,
            settings.limits.by_priority,
        )
        self.is_draining = False
        self._pages = EnginePages(settings, core, metrics, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = header_map(scope)
        request_id = headers.get("x-request-id") or secrets.token_hex(8)
        reply = Reply(send, {"x-request-id": request_id})
        path, method = scope["path"], scope["method"]
        if method == "POST" and path in {CHAT_PATH, COMPLETIONS_PATH}:
            self._pages.in_flight += 1
            try:
                await self._complete(path, headers, request_id, receive, reply)
            except ClientLeft:
                pass  # nobody is there to be told
            except _Stopped:
                # A stream that has begun stays without its end: its reader must see a break.
                if not reply.started:
                    await reply.whole(500, b'{"error":{"code":500}}', _JSON)
            finally:
                self._pages.in_flight -= 1
            return
        try:
            page = self._pages.answer(method, path, scope["query_string"].decode())
        except Refused as refused:
            await reply.whole(refused.status, json.dumps(refused.body).encode(), _JSON)
            return
        if page is None:
            await reply.whole(404, b'{"detail":"Not Found"}', _JSON)
        else:
            await reply.whole(200, *page)

    async def _complete(
        self,
        path: str,
        headers: Mapping[str, str],
        request_id: str,
        receive: Receive,
        reply: Reply,
    ) -> None:
        generation = None
        try:
            raw = await read_body(receive, MAX_BODY_BYTES)
            generation = self._reader.read(path, raw, request_id)
            self._admit(generation)
        except BodyTooLarge as error:
            await self._refuse(Refused(413, "BadRequestError", str(error)), generation, reply)
            return
        except Refused as refused:
            await self._refuse(refused, generation, reply)
            return
        job = _Job(generation, extract(headers), [self._core.start(w) for w in generation.works])
        for index, ticket in enumerate(job.tickets):
            ticket.first.add_done_callback(partial(self._first, ticket))
            ticket.done.add_done_callback(partial(self._finished, job, index))
        try:
            answer = self._stream(job, reply) if generation.stream else self._whole(job, reply)
            await while_present(receive, answer)
        finally:
            for ticket in job.tickets:
                self._core.end(ticket)

    def _admit(self, generation: Generation) -> None:
        if self.is_draining:
            raise Refused(500, "InternalServerError", "The engine is shutting down")
        limit = self._settings.max_num_queued_reqs
        if limit is not None and self._core.queued >= limit:
            self._metrics.rejected()
            raise Refused(
                503,
                "ServiceUnavailableError",
                f"The queue is full: {self._core.queued} requests wait and "
                f"max_num_queued_reqs is {limit}. Try again later.",
            )
        for work in generation.works:
            if not self._core.fits(work):
                raise Refused(400, "BadRequestError", "The request exceeds the KV cache")

    async def _refuse(self, refused: Refused, generation: Generation | None, reply: Reply) -> None:
        """Answer an error; a stream was already promised 200 when the engine refuses it."""
        if generation is not None and generation.stream and refused.status == 503:
            await reply.start(200, _EVENTS)
            await reply.end(bodies.error_event(refused.body))
            return
        await reply.whole(refused.status, json.dumps(refused.body).encode(), _JSON)

    async def _whole(self, job: _Job, reply: Reply) -> None:
        await asyncio.wait([ticket.done for ticket in job.tickets])
        ends = [_result(ticket) for ticket in job.tickets]
        await reply.whole(200, bodies.whole(job.generation, ends, self._now_s()), _JSON)

    async def _stream(self, job: _Job, reply: Reply) -> None:
        """Send first tokens at once, the rest in pieces of a fraction of a second."""
        generation, created = job.generation, self._now_s()
        await reply.start(200, _EVENTS)
        sent = [0] * len(job.tickets)
        open_indexes = list(range(len(job.tickets)))
        while open_indexes:
            await self._something_to_say(job, open_indexes, sent)
            piece = b""
            for index in list(open_indexes):
                ticket = job.tickets[index]
                is_last = ticket.done.done()
                if is_last:
                    _result(ticket)
                produced = self._core.tokens(ticket)
                if produced > sent[index] or is_last:
                    piece += bodies.chunk(
                        generation, created, index, sent[index], produced, is_last=is_last
                    )
                    sent[index] = produced
                if is_last:
                    open_indexes.remove(index)
            if piece:
                await reply.piece(piece)
        ends = [_result(ticket) for ticket in job.tickets]
        usage = bodies.usage_chunk(generation, created, ends) if generation.wants_usage else b""
        await reply.end(usage + bodies.DONE)

    async def _something_to_say(self, job: _Job, indexes: list[int], sent: list[int]) -> None:
        waiting: set[asyncio.Future[Any]] = set()
        for index in indexes:
            ticket = job.tickets[index]
            waiting.add(ticket.done if sent[index] else ticket.first)
        timeout = self._settings.stream_interval_s if any(sent) else None
        await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    def _first(self, ticket: Ticket, first: asyncio.Future[float]) -> None:
        if not first.cancelled():
            self._metrics.first_token(first.result() - ticket.arrived_at)

    def _finished(self, job: _Job, index: int, done: asyncio.Future[Finished]) -> None:
        if done.cancelled():
            return  # given up: no span, no metric
        end, generation = done.result(), job.generation
        arrived_at = job.tickets[index].arrived_at
        self._metrics.finished(
            end,
            arrived_at,
            AskedFor(generation.n, generation.max_tokens, generation.finish_reason(index)),
        )
        emit_llm_request(
            self._tracer,
            job.parent,
            self._unix_ns(arrived_at),
            self._unix_ns(max(end.at, self._clock.monotonic())),
            llm_request_attributes(end, arrived_at, generation.span_ids[index], generation),
        )

    def _now_s(self) -> int:
        return int(self._clock.now().timestamp())

    def _unix_ns(self, moment: float) -> int:
        return self._unix_zero_ns + round(moment * 1e9)


@dataclass(frozen=True, slots=True)
class _Job:
    """One HTTP request in progress."""

    generation: Generation
    parent: Context
    tickets: list[Ticket]


class _Stopped(Exception):  # noqa: N818  an event, not a fault
    """The engine was closed under a request."""


def _result(ticket: Ticket) -> Finished:
    """Return how a sequence that is no longer running ended. Raises _Stopped."""
    if ticket.done.cancelled():
        raise _Stopped
    return ticket.done.result()
