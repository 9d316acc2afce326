"""The OpenAI-compatible request as the gateway and the router read it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from base.errors import BadInput
from stack.wire.names import CHAT_PATH, COMPLETIONS_PATH

OPERATIONS: Mapping[str, str] = {CHAT_PATH: "chat", COMPLETIONS_PATH: "text_completion"}
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Ask:
    """One inference request. `body` is what the client sent, parsed."""

    path: str
    body: Mapping[str, Any]
    model: str
    stream: bool
    user: str
    wants_usage: bool
    prompt_tokens: int
    """Estimated, four characters a token: for limits, before the engine has counted."""
    max_tokens: int | None


def parse_ask(path: str, raw: bytes) -> Ask:
    """Read a request body. Raises BadInput with a message the client may see."""
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise BadInput(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadInput("the body is not a JSON object")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadInput("field 'model' is missing: name one of GET /v1/models")
    field = "messages" if path == CHAT_PATH else "prompt"
    if not body.get(field):
        raise BadInput(f"field {field!r} is missing or empty")
    options = body.get("stream_options")
    user = body.get("user")
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    return Ask(
        path=path,
        body=body,
        model=model,
        stream=body.get("stream") is True,
        user=user if isinstance(user, str) else "",
        wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
        prompt_tokens=estimate_tokens(sum(map(len, prompt_pieces(body)))),
        max_tokens=limit if isinstance(limit, int) else None,
    )


def estimate_tokens(chars: int) -> int:
    return math.ceil(chars / CHARS_PER_TOKEN)


def upstream_body(ask: Ask, priority: int | None) -> bytes:
    """Write the request the engine gets: streams always report usage, for the span.

    `priority` is set only where the engines run with vLLM's priority scheduling: others refuse it.
    """
    extra: dict[str, Any] = {}
    if ask.stream and not ask.wants_usage:
        options = ask.body.get("stream_options")
        extra["stream_options"] = {
            **(options if isinstance(options, dict) else {}),
            "include_usage": True,
        }
    if priority is not None:
        extra["priority"] = priority
    return json.dumps({**ask.body, **extra}, separators=(",", ":"), ensure_ascii=False).encode()


def prompt_pieces(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the prompt's text in the order the engine will see it; token ids count as text."""
    messages = body.get("messages")
    if isinstance(messages, list):
        for message in messages:
            if isinstance(message, dict):
                yield str(message.get("role", ""))
                yield from _text(message.get("content"))
        return
    yield from _text(body.get("prompt"))


def error_body(message: str, kind: str, code: str, param: str | None = None) -> bytes:
    """Write an error as OpenAI's API does."""
    return json.dumps(
        {"error": {"message": message, "type": kind, "param": param, "code": code}},
        separators=(",", ":"),
    ).encode()


def _text(content: Any) -> Iterator[str]:
    match content:
        case str():
            yield content
        case int():
            # A token id stands for one token, whatever its digits.
            yield f"{content:>{CHARS_PER_TOKEN}}"
        case list():
            for part in content:
                yield from _text(part)
        case {"text": str() as text}:
            yield text
        case _:
            return
