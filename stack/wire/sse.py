"""Reads what a streamed answer says about itself while it passes by.

Of a hundred chunks three matter: the first with content, the one with the finish reason and the
one with the usage. Once the first token was seen, a chunk in which a regular expression finds
none of the telling marks is passed on unparsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stack.wire.gaps import Gaps

_TELLING = re.compile(rb'"usage":\s*\{|"finish_reason":\s*"|\[DONE\]|"error"')
_END = b"\n\n"


@dataclass(slots=True)
class AnswerFacts:
    """What is known of an answer so far; None is "not said"."""

    ttft_s: float | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reasons: list[str] = field(default_factory=list)
    gaps: Gaps = field(default_factory=Gaps, compare=False)
    done: bool = False
    error: Mapping[str, Any] | None = None

    def learn(self, document: Mapping[str, Any]) -> None:
        """Take what one chunk, or one whole answer, says."""
        if isinstance(model := document.get("model"), str):
            self.model = model
        if isinstance(usage := document.get("usage"), dict):
            self._learn_usage(usage)
        for choice in document.get("choices") or ():
            if isinstance(choice, dict) and (reason := choice.get("finish_reason")):
                self.finish_reasons.append(str(reason))
        if isinstance(error := document.get("error"), dict):
            self.error = error

    def _learn_usage(self, usage: Mapping[str, Any]) -> None:
        self.prompt_tokens = _count(usage.get("prompt_tokens"))
        self.completion_tokens = _count(usage.get("completion_tokens"))
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            self.cached_tokens = _count(details.get("cached_tokens"))


class StreamReader:
    """Splits a byte stream into server-sent events and fills in `facts`.

    `elapsed` gives the seconds since the request arrived. Without `pass_usage` the usage event
    that only the gateway asked for is taken out, for the client's `choices[0]` would fail on it.
    """

    def __init__(
        self, facts: AnswerFacts, elapsed: Callable[[], float], *, pass_usage: bool
    ) -> None:
        self._facts = facts
        self._elapsed = elapsed
        self._pass_usage = pass_usage
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """Take bytes as they came, return the whole events to pass on (possibly none)."""
        data = self._rest + chunk if self._rest else chunk
        cut = data.rfind(_END)
        if cut < 0:
            self._rest = data
            return b""
        cut += len(_END)
        self._rest = data[cut:]
        ready = data if cut == len(data) else data[:cut]
        if self._facts.ttft_s is not None and not _TELLING.search(ready):
            if not ready.startswith(b":"):  # a comment keeps a connection alive, no more
                self._facts.gaps.came(self._elapsed(), ready.count(_END))
            return ready
        kept = [event for event in ready.split(_END) if event and self._read(event)]
        return _END.join([*kept, b""]) if kept else b""

    def _read(self, event: bytes) -> bool:
        """Learn from one event; False when it is not to be passed on."""
        if not event.startswith(b"data:"):
            return True
        data = event[5:].strip()
        if data == b"[DONE]":
            self._facts.done = True
            return True
        try:
            document = json.loads(data)
        except ValueError:
            return True  # not ours to judge: the client sees what the engine said
        if not isinstance(document, dict):
            return True
        self._facts.learn(document)
        if _has_content(document):
            at_s = self._elapsed()
            if self._facts.ttft_s is None:
                self._facts.ttft_s = at_s
            self._facts.gaps.came(at_s)
        only_usage = document.get("choices") == [] and document.get("usage") is not None
        return self._pass_usage or not only_usage


def _has_content(document: Mapping[str, Any]) -> bool:
    """Tell whether a chunk carries any of the answer: a role alone is not yet a token."""
    for choice in document.get("choices") or ():
        if not isinstance(choice, dict):
            continue
        if choice.get("text"):
            return True
        delta = choice.get("delta")
        if isinstance(delta, dict) and any(
            delta.get(key)
            for key in ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")
        ):
            return True
    return False


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
