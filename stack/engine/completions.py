"""The engine's side of the OpenAI API: what a body asks for, refused in vLLM's words."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stack.engine.sequence import Work
from stack.wire.filler import Prompt, block_hashes, count_tokens
from stack.wire.names import CHAT_PATH

MEDIAN_OUTPUT_TOKENS = 129  # of the Azure 2023 conversation trace, as is the spread below
OUTPUT_SPREAD = 0.9
COMPLETION_MAX_TOKENS = 16


class Refused(Exception):  # noqa: N818  an answer to the caller, not a fault of ours
    """The request gets an error answer, shaped as vLLM's."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {
            "error": {"message": message, "type": kind, "param": param, "code": status}
        }


@dataclass(frozen=True, slots=True)
class Generation:
    """One HTTP request: its sequences and what is said about them."""

    id: str
    is_chat: bool
    model: str
    works: tuple[Work, ...]
    span_ids: tuple[str, ...]
    prompts: int
    stream: bool
    wants_usage: bool
    n: int
    max_tokens: int
    temperature: float
    top_p: float

    def finish_reason(self, index: int) -> str:
        return "length" if self.works[index].output_tokens >= self.max_tokens else "stop"


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads bodies for one engine."""

    model: str
    max_model_len: int
    block_size: int
    takes_priority: bool

    def read(self, path: str, raw: bytes, request_id: str) -> Generation:
        """Turn a body into sequences. Raises Refused."""
        body = _parse(raw)
        is_chat = path == CHAT_PATH
        prompts = [_chat_prompt(body)] if is_chat else _prompts(body)
        self._check_model(body)
        n = _integer(body, "n", 1)
        if n < 1:
            raise _bad(f"n must be at least 1, got {n}.")
        temperature = _number(body, "temperature", 1.0)
        if temperature < 0:
            raise _bad(f"temperature must be non-negative, got {temperature}.", "temperature")
        top_p = _number(body, "top_p", 1.0)
        if not 0 < top_p <= 1:
            raise _bad(f"top_p must be in (0, 1], got {top_p}.", "top_p")
        priority = _integer(body, "priority", 0)
        if priority and not self.takes_priority:
            raise _bad("Got priority but the priority scheduling policy is not enabled")
        salt = body.get("cache_salt")
        generation_id = ("chatcmpl-" if is_chat else "cmpl-") + request_id
        longest = max(count_tokens(prompt) for prompt in prompts)
        max_tokens = self._max_tokens(body, longest, is_chat=is_chat)
        works, span_ids = [], []
        for index, prompt in enumerate(prompts):
            span_id = generation_id if is_chat else f"{generation_id}-{index}"
            hashes = block_hashes(prompt, self.block_size, salt if isinstance(salt, str) else "")
            for child in range(n):
                work_id = f"{span_id}/{child}"
                tokens = output_tokens(body, max_tokens, work_id)
                works.append(Work(work_id, count_tokens(prompt), tokens, hashes, priority))
                span_ids.append(span_id)
        options = body.get("stream_options")
        return Generation(
            id=generation_id,
            is_chat=is_chat,
            model=self.model,
            works=tuple(works),
            span_ids=tuple(span_ids),
            prompts=len(prompts),
            stream=body.get("stream") is True,
            wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
            n=n,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
        )

    def _check_model(self, body: Mapping[str, Any]) -> None:
        model = body.get("model", self.model)
        if model != self.model:
            raise Refused(
                404,
                "NotFoundError",
                f"The model `{model}` does not exist. Valid aliases: {self.model}.",
                "model",
            )

    def _max_tokens(self, body: Mapping[str, Any], prompt_tokens: int, *, is_chat: bool) -> int:
        room = self.max_model_len - prompt_tokens
        if room < 1:
            raise _bad(
                f"This model's maximum context length is {self.max_model_len} tokens. However, "
                f"your prompt contains at least {prompt_tokens} input tokens, which exceeds this "
                "limit even without any output tokens. Please reduce the length of the input "
                f"prompt. (parameter=input_tokens, value={prompt_tokens})",
                "input_tokens",
            )
        name = "max_completion_tokens" if body.get("max_completion_tokens") else "max_tokens"
        wanted = _integer(body, name, room if is_chat else COMPLETION_MAX_TOKENS)
        if wanted < 1:
            raise _bad(
                f"max_tokens must be at least 1, got {wanted}. "
                f"(parameter=max_tokens, value={wanted})",
                "max_tokens",
            )
        if wanted > self.max_model_len:
            raise _bad(
                f"max_tokens={wanted} cannot be greater than max_model_len={self.max_model_len}. "
                f"Please request fewer output tokens. (parameter=max_tokens, value={wanted})",
                "max_tokens",
            )
        return min(wanted, room)


def output_tokens(body: Mapping[str, Any], max_tokens: int, work_id: str) -> int:
    """Decide how long the answer is: as long as allowed when told to ignore its own end.

    Otherwise the length is drawn from the Azure conversations', always the same for one id.
    """
    if body.get("ignore_eos") is True:
        return max_tokens
    seed = int.from_bytes(hashlib.blake2b(work_id.encode(), digest_size=8).digest())
    drawn = random.Random(seed).lognormvariate(math.log(MEDIAN_OUTPUT_TOKENS), OUTPUT_SPREAD)
    least = max(1, _integer(body, "min_tokens", 0))
    return min(max_tokens, max(least, round(drawn)))


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise Refused(
            400,
            "Bad Request",
            f"1 validation error:\n  {{'type': 'json_invalid', 'msg': '{error}'}}",
        ) from error
    if not isinstance(body, dict):
        raise Refused(400, "Bad Request", "1 validation error:\n  {'type': 'model_type'}", "body")
    return body


def _chat_prompt(body: Mapping[str, Any]) -> str:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(
            400,
            "Bad Request",
            "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', "
            "'msg': 'Field required'}",
            "body.messages",
        )
    return "".join(
        f"{message.get('role', '')}{_content(message.get('content'))}"
        for message in messages
        if isinstance(message, dict)
    )


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _prompts(body: Mapping[str, Any]) -> Sequence[Prompt]:
    match body.get("prompt"):
        case str(text) if text:
            return [text]
        case [int(), *_] as ids:
            return [ids]
        case [str() | [int(), *_], *_] as many if all(many):
            return list(many)
    raise _bad(
        "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)",
        "prompt",
    )


def _integer(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(f"{name} must be an integer, got {value!r}.", name)
    return value


def _number(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(f"{name} must be a number, got {value!r}.", name)
    return float(value)


def _bad(message: str, param: str | None = None) -> Refused:
    return Refused(400, "BadRequestError", message, param)
