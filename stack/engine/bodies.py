"""The bodies a simulated engine answers with: whole answers and chunks of streams, as vLLM's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from stack.engine.completions import Generation
from stack.engine.sequence import Finished
from stack.wire.filler import filler

DONE = b"data: [DONE]\n\n"


def usage(generation: Generation, ends: Sequence[Finished]) -> dict[str, Any]:
    """Count a request's tokens; the prompt of n answers counts once."""
    prompt = sum(end.prompt_tokens for end in ends[:: generation.n])
    completion = sum(end.output_tokens for end in ends)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {
            "cached_tokens": sum(end.cached_tokens for end in ends[:: generation.n])
        },
    }


def whole(generation: Generation, ends: Sequence[Finished], created: int) -> bytes:
    """Write the answer to a request that does not stream."""
    choices = []
    for index, end in enumerate(ends):
        text = filler(0, end.output_tokens)
        said = (
            {"message": {"role": "assistant", "content": text}}
            if generation.is_chat
            else {"text": text}
        )
        reason = generation.finish_reason(index)
        choices.append({"index": index, **said, "logprobs": None, "finish_reason": reason})
    kind = "chat.completion" if generation.is_chat else "text_completion"
    return _encode(
        {
            **_head(generation, kind, created),
            "choices": choices,
            "usage": usage(generation, ends),
        }
    )


def chunk(
    generation: Generation,
    created: int,
    index: int,
    start: int,
    stop: int,
    *,
    is_last: bool,
) -> bytes:
    """Write the event with tokens `start` to `stop` of one answer; the first names the role."""
    text = filler(start, stop)
    reason = generation.finish_reason(index) if is_last else None
    events = b""
    if not generation.is_chat:
        return _event(generation, created, {"index": index, "text": text, "finish_reason": reason})
    if start == 0:
        role = {"role": "assistant", "content": ""}
        events = _event(generation, created, {"index": index, "delta": role, "finish_reason": None})
    said = {"index": index, "delta": {"content": text}, "finish_reason": reason}
    return events + _event(generation, created, said)


def usage_chunk(generation: Generation, created: int, ends: Sequence[Finished]) -> bytes:
    """Write the last event before [DONE] when the client asked for usage."""
    body = {
        **_head(generation, _chunk_kind(generation), created),
        "choices": [],
        "usage": usage(generation, ends),
    }
    return b"data: " + _encode(body) + b"\n\n"


def error_event(body: dict[str, Any]) -> bytes:
    """Write how vLLM refuses a stream: status 200 and one error event."""
    return b"data: " + _encode(body) + b"\n\n" + DONE


def _event(generation: Generation, created: int, choice: dict[str, Any]) -> bytes:
    body = {
        **_head(generation, _chunk_kind(generation), created),
        "choices": [{**choice, "logprobs": None}],
    }
    return b"data: " + _encode(body) + b"\n\n"


def _chunk_kind(generation: Generation) -> str:
    return "chat.completion.chunk" if generation.is_chat else "text_completion"


def _head(generation: Generation, kind: str, created: int) -> dict[str, Any]:
    return {"id": generation.id, "object": kind, "created": created, "model": generation.model}


def _encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
