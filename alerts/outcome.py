"""What an attempt to deliver came to, and what to do next; pure."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum

import httpx

from base.outbound import redact_url

LONGEST_WAIT = timedelta(hours=1)
_REFUSED_FOR_NOW = frozenset({408, 425, 429})  # not processed, may be later
_SNIPPET = 200


class Fate(StrEnum):
    DELIVERED = "delivered"
    RETRY = "retry"
    REFUSED = "refused"  # the same bytes will never be taken: dead letter
    GONE = "gone"  # 410: nothing will, until somebody enables the receiver again


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response as far as it matters; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`maybe_heard`: it was not accepted, but the receiver may have acted on it all the same."""

    fate: Fate
    reason: str
    status: int | None = None
    after: timedelta | None = None
    maybe_heard: bool = False


def classify(answer: Answer, now: datetime) -> Outcome:
    """Judge a response the way webhooks do; a notifier with other rules starts from this."""
    status = answer.status
    if 200 <= status < 300:
        return Outcome(Fate.DELIVERED, f"HTTP {status}", status)
    if status in _REFUSED_FOR_NOW or status >= 500:
        return Outcome(
            Fate.RETRY,
            _said(answer),
            status,
            after=retry_after(answer.headers.get("retry-after"), now),
            maybe_heard=status >= 500,
        )
    if 300 <= status < 400:
        target = answer.headers.get("location", "")
        where = redact_url(target) if "://" in target else "another path"
        return Outcome(
            Fate.REFUSED, f"HTTP {status}: redirects to {where}; set the final url", status
        )
    if status == 410:
        return Outcome(
            Fate.GONE, "HTTP 410: the receiver is gone; enable it when it is back", status
        )
    return Outcome(Fate.REFUSED, _said(answer), status)


def classify_error(error: Exception) -> Outcome:
    """Judge a request that got no response. Says the kind of error, never its text: a URL leaks."""
    kind = type(error).__name__
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return Outcome(Fate.REFUSED, f"{kind}: the url cannot be used")
    if isinstance(error, httpx.ConnectError):
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error)):
            return Outcome(Fate.REFUSED, "the TLS certificate could not be verified")
        return Outcome(Fate.RETRY, f"{kind}: no connection")
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return Outcome(Fate.RETRY, f"{kind}: no connection in time")
    if isinstance(error, httpx.TransportError):
        return Outcome(Fate.RETRY, f"{kind}: the answer did not arrive", maybe_heard=True)
    return Outcome(Fate.REFUSED, f"{kind}: the request could not be made")


def retry_after(text: str | None, now: datetime) -> timedelta | None:
    """Read Retry-After (seconds or an HTTP date), at most an hour; None if absent or unreadable."""
    if not text:
        return None
    try:
        wait = timedelta(seconds=float(text))
    except (ValueError, OverflowError):
        try:
            wait = parsedate_to_datetime(text) - now
        except (ValueError, TypeError):
            return None
    return min(max(wait, timedelta(0)), LONGEST_WAIT)


def redact(text: str, secrets: Iterable[str]) -> str:
    """Remove secrets, longest first, from text that will be stored or shown."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "<secret>")
    return text


def _said(answer: Answer) -> str:
    words = " ".join(answer.body.split())[:_SNIPPET]
    return f"HTTP {answer.status}: {words}" if words else f"HTTP {answer.status}"


def _causes(error: BaseException | None) -> Iterable[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
