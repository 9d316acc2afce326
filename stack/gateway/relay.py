"""Passes one admitted request to the router and its answer back, learning on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import aclosing

from stack.gateway.admission import Refusal
from stack.wire.asgi import Reply
from stack.wire.openai_api import error_body
from stack.wire.outcome import Outcome, Reason, answered, failed, of_upstream_status
from stack.wire.retries import RETRY_BUDGET, RETRY_HEADER
from stack.wire.sse import AnswerFacts, StreamReader
from stack.wire.upstream import Answer, AnswerCut, NoAnswer, Upstream

_PASSED_BACK = ("content-type", "retry-after", "x-request-id")
_RETRY_PAUSE_S = 0.05


async def ask_upstream(
    upstream: Upstream, url: str, headers: Mapping[str, str], body: bytes
) -> Answer:
    """Ask the router, twice at most, and only while no byte of an answer came. Raises Refusal."""
    try:
        return await upstream.send("POST", url, {**headers, RETRY_HEADER: str(RETRY_BUDGET)}, body)
    except NoAnswer:
        await asyncio.sleep(_RETRY_PAUSE_S)
    try:
        return await upstream.send(
            "POST", url, {**headers, RETRY_HEADER: str(RETRY_BUDGET - 1)}, body
        )
    except (NoAnswer, AnswerCut) as error:
        raise upstream_failed("the router does not answer", "router_unreachable") from error


async def pass_whole(answer: Answer, reply: Reply, facts: AnswerFacts) -> Outcome:
    """Pass on an answer that is not a stream, or is an error."""
    try:
        body = await answer.read()
    except AnswerCut as error:
        raise upstream_failed("the answer broke off", "answer_cut") from error
    document = _json(body)
    if document is not None:
        facts.learn(document)
    await reply.whole(answer.status, body, _passed_back(answer))
    if answer.status >= 400:
        return failed(of_upstream_status(answer.status), f"upstream_{answer.status}")
    return answered(facts.finish_reasons)


async def pass_stream(
    answer: Answer,
    reply: Reply,
    facts: AnswerFacts,
    elapsed: Callable[[], float],
    *,
    pass_usage: bool,
) -> Outcome:
    """Pass on a stream of events.

    The head waits for the first event: vLLM refuses a stream with status 200 and an error event,
    and while nothing was sent that can still become the status it should have been.
    """
    reader = StreamReader(facts, elapsed, pass_usage=pass_usage)
    try:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                events = reader.feed(chunk)
                if facts.error is not None and not reply.started:
                    raise _refused_stream(facts.error)
                if events:
                    if not reply.started:
                        await reply.start(200, _passed_back(answer))
                    await reply.piece(events)
    except AnswerCut as error:
        return await cut_stream(reply, Reason.STREAM_CUT, str(error))
    if facts.error is not None:
        await reply.end()
        return failed(_reason_of(facts.error), "engine_error")
    if not facts.done:
        return await cut_stream(reply, Reason.STREAM_CUT, "the stream ended without [DONE]")
    await reply.end()
    return answered(facts.finish_reasons)


async def cut_stream(reply: Reply, reason: Reason, why: str) -> Outcome:
    """End a stream that will not be whole, telling the client in the only way left."""
    if not reply.started:
        raise upstream_failed("the answer broke off before it began", reason.value)
    await reply.end(b"data: " + error_body(why, "api_error", reason.value) + b"\n\n")
    return failed(reason, reason.value)


def upstream_failed(message: str, code: str) -> Refusal:
    return Refusal(502, message, kind="api_error", code=code, reason=Reason.UPSTREAM_ERROR)


def _refused_stream(error: Mapping[str, object]) -> Refusal:
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 502
    refusal = Refusal(
        status,
        str(error.get("message", "the engine refused the request")),
        kind=str(error.get("type", "api_error")),
        code=f"upstream_{status}",
        reason=of_upstream_status(status),
    )
    if refusal.outcome.reason is Reason.CAPACITY:
        refusal.headers["retry-after"] = "1"
    return refusal


def _reason_of(error: Mapping[str, object]) -> Reason:
    code = error.get("code")
    return of_upstream_status(code) if isinstance(code, int) else Reason.UPSTREAM_ERROR


def _passed_back(answer: Answer) -> dict[str, str]:
    return {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}


def _json(body: bytes) -> Mapping[str, object] | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
