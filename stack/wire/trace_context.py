"""W3C trace context: how a request's spans of several processes become one trace."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_propagator = TraceContextTextMapPropagator()


def extract(headers: Mapping[str, str]) -> Context:
    """Read the caller's `traceparent` and `tracestate`; a bad or missing one is an empty context.

    Header names must be lower case, as ASGI servers deliver them.
    """
    return _propagator.extract(headers, context=Context())


def caller_context(headers: Mapping[str, str]) -> Context:
    """Continue the caller's trace, but not its sampling.

    This span is the denominator of every SLO: a client that samples one request in a hundred
    would make the other ninety-nine disappear.
    """
    context = extract(headers)
    parent = trace.get_current_span(context).get_span_context()
    if not parent.is_valid or parent.trace_flags.sampled:
        return context
    kept = SpanContext(
        parent.trace_id,
        parent.span_id,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=parent.trace_state,
    )
    return trace.set_span_in_context(NonRecordingSpan(kept), Context())


def inject(span: Span) -> dict[str, str]:
    """Write the headers that make a callee's spans children of `span`."""
    headers: dict[str, str] = {}
    _propagator.inject(headers, context=trace.set_span_in_context(span, Context()))
    return headers
