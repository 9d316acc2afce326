"""How a request ended, in the words the SLOs count by.

Good, bad or excluded, with a reason: a refusal that protects the service stays bad (shedding must
not look like success), a refusal that is the caller's own doing is excluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Label(StrEnum):
    GOOD = "good"
    BAD = "bad"
    EXCLUDED = "excluded"


class Reason(StrEnum):
    OK = "ok"
    SHED = "shed"
    QUOTA = "quota"
    CAPACITY = "capacity"
    CLIENT_ERROR = "client_error"
    CONTENT_FILTER = "content_filter"
    UPSTREAM_ERROR = "upstream_error"
    TIMEOUT = "timeout"
    CLIENT_GONE = "client_gone"
    STREAM_CUT = "stream_cut"
    INTERNAL_ERROR = "internal_error"


_EXCLUDED = {Reason.QUOTA, Reason.CLIENT_ERROR, Reason.CONTENT_FILTER}

CLIENT_CLOSED = 499
"""nginx's status for a client that left; never sent, only recorded."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error_type` is the span's `error.type`: None for what is not an error of the request."""

    label: Label
    reason: Reason
    error_type: str | None = None


def failed(reason: Reason, error_type: str) -> Outcome:
    """Judge a request that was refused or broke."""
    label = Label.EXCLUDED if reason in _EXCLUDED else Label.BAD
    return Outcome(label, reason, error_type)


def answered(finish_reasons: Sequence[str]) -> Outcome:
    """Judge a whole answer. A length limit is a success; a content filter is its own SLI."""
    if "content_filter" in finish_reasons:
        return Outcome(Label.EXCLUDED, Reason.CONTENT_FILTER)
    if "error" in finish_reasons or "abort" in finish_reasons:
        return failed(Reason.UPSTREAM_ERROR, "engine_" + finish_reasons[-1])
    return Outcome(Label.GOOD, Reason.OK)


def client_gone(elapsed_s: float, ttft_s: float | None, patience_s: float) -> Outcome:
    """Judge a request whose client left.

    A client that stops a running answer got what it wanted; one that leaves before the first
    token says something about us only when it had waited longer than `patience_s`.
    """
    if ttft_s is not None:
        return Outcome(Label.GOOD, Reason.CLIENT_GONE)
    if elapsed_s <= patience_s:
        return Outcome(Label.EXCLUDED, Reason.CLIENT_GONE, "client_gone")
    return Outcome(Label.BAD, Reason.CLIENT_GONE, "client_gone")


def of_upstream_status(status: int) -> Reason:
    """Say why the other side refused, from its status (vLLM: 503 when its queue is full)."""
    if status in {429, 503, 529}:
        return Reason.CAPACITY
    if status in {408, 504}:
        return Reason.TIMEOUT
    return Reason.UPSTREAM_ERROR if status >= 500 else Reason.CLIENT_ERROR
