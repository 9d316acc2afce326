"""vLLM's `llm_request` span: what it says, and what it leaves out.

There is none for a request that was refused or given up. It names neither model nor tenant, nor
cached tokens or preemptions: the model comes from the resource.
"""

from __future__ import annotations

import os

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Tracer
from opentelemetry.util.types import AttributeValue

from stack.engine.completions import Generation
from stack.engine.sequence import Finished
from stack.wire import names


def engine_resource(model: str) -> dict[str, str]:
    """Return the resource attributes of a replica's spans, beside service and instance."""
    return {
        names.ENGINE_MODULE: names.ENGINE_MODULE_NAME,
        names.ENGINE_PROCESS_ID: str(os.getpid()),
        names.REQUEST_MODEL: model,
    }


def llm_request_attributes(
    end: Finished, arrived_at: float, span_id: str, generation: Generation
) -> dict[str, AttributeValue]:
    """Describe one sequence, in vLLM's order. `arrived_at` is on the clock of `end`."""
    attributes: dict[str, AttributeValue] = {
        names.ENGINE_TTFT: end.first_token_at - arrived_at,
        names.ENGINE_E2E: end.at - arrived_at,
        names.ENGINE_QUEUE: end.queue_s,
        names.ENGINE_PROMPT_TOKENS: end.prompt_tokens,
        names.ENGINE_COMPLETION_TOKENS: end.output_tokens,
        names.ENGINE_PREFILL: end.prefill_s,
        names.ENGINE_DECODE: end.decode_s,
        names.ENGINE_INFERENCE: end.prefill_s + end.decode_s,
        names.REQUEST_ID: span_id,
        names.ENGINE_TOP_P: generation.top_p,
        names.ENGINE_MAX_TOKENS: generation.max_tokens,
        names.ENGINE_N: 1,
    }
    if generation.temperature:  # greedy leaves it out
        attributes[names.ENGINE_TEMPERATURE] = generation.temperature
    return attributes


def emit_llm_request(
    tracer: Tracer,
    parent: Context,
    start_ns: int,
    end_ns: int,
    attributes: dict[str, AttributeValue],
) -> None:
    span = tracer.start_span(
        names.ENGINE_SPAN,
        context=parent,
        kind=SpanKind.SERVER,
        attributes=attributes,
        start_time=start_ns,
    )
    span.end(end_time=end_ns)
