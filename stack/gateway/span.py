"""The gateway's span: the one record every logical request has, however it ended."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from stack.wire import names
from stack.wire.openai_api import OPERATIONS, Ask
from stack.wire.outcome import Label, Outcome
from stack.wire.sse import AnswerFacts
from stack.wire.trace_context import caller_context

_SHOWN_CHARS = 256


def start_span(tracer: Tracer, headers: Mapping[str, str], path: str, request_id: str) -> Span:
    """Begin the span when the request arrives, before anything can go wrong."""
    return tracer.start_span(
        f"POST {path}",
        context=caller_context(headers),
        kind=SpanKind.SERVER,
        attributes={
            names.ROLE: names.GATEWAY_ROLE,
            names.METHOD: "POST",
            names.ROUTE: path,
            names.OPERATION: OPERATIONS[path],
            names.REQUEST_ID: request_id,
            **({names.FEATURE: _short(headers["x-feature"])} if "x-feature" in headers else {}),
        },
    )


def describe_ask(span: Span, ask: Ask, headers: Mapping[str, str]) -> None:
    span.set_attribute(names.REQUEST_MODEL, _short(ask.model))
    span.set_attribute(names.STREAM, ask.stream)
    user = ask.user or headers.get("x-user-id", "")
    if user:
        span.set_attribute(names.USER, _short(user))


def finish_span(span: Span, outcome: Outcome, status: int, facts: AnswerFacts) -> None:
    """End the span with what is known; what nobody said stays absent rather than zero."""
    known: dict[str, AttributeValue | None] = {
        names.STATUS: status,
        names.OUTCOME: outcome.label.value,
        names.OUTCOME_REASON: outcome.reason.value,
        names.ERROR_TYPE: outcome.error_type,
        names.SERVER_TTFT: facts.ttft_s,
        names.SERVER_ITL_P95: facts.gaps.p95_s(),
        names.INPUT_TOKENS: facts.prompt_tokens,
        names.OUTPUT_TOKENS: facts.completion_tokens,
        names.CACHED_TOKENS: facts.cached_tokens,
        names.RESPONSE_MODEL: facts.model,
        names.FINISH_REASONS: tuple(facts.finish_reasons) or None,
    }
    for name, value in known.items():
        if value is not None:
            span.set_attribute(name, value)
    if outcome.label is Label.BAD:
        span.set_status(StatusCode.ERROR, outcome.reason.value)
    span.end()


def _short(text: str) -> str:
    return text[:_SHOWN_CHARS]
