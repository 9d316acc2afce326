"""Who is let in, how much at once, and how fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from base.clock import Clock
from collector.keys import Authenticator, Identity
from collector.refusal import Reason, Refused

_SOON = timedelta(seconds=1)
_LOG_DRAINS_IN = timedelta(seconds=15)


@dataclass(slots=True)
class Held:
    """Bytes that one request holds in memory; it grows while the body arrives."""

    budget: MemoryBudget
    size: int = 0

    def grow(self, size: int) -> None:
        """Take more. Raises Refused when there is no more."""
        self.budget.take(size)
        self.size += size


class MemoryBudget:
    """Bounds the bytes of all requests that are being received, decoded or written."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def take(self, size: int) -> None:
        if self.used and self.used + size > self._limit:
            raise Refused(
                Reason.OVERLOADED, f"{self._limit} bytes of requests are in memory already", _SOON
            )
        self.used += size

    @contextmanager
    def hold(self, size: int = 0) -> Iterator[Held]:
        """Count a request's bytes until it is answered."""
        held = Held(self)
        try:
            held.grow(size)
            yield held
        finally:
            self.used -= held.size


class RateLimit:
    """A token bucket per tenant, a second deep; a bucket may go into debt by one request."""

    def __init__(self, spans_per_s: float | None, clock: Clock) -> None:
        self._rate = spans_per_s
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # tenant -> spans left, as of

    def take(self, tenant: str, spans: int) -> None:
        """Count spans against a tenant. Raises Refused with the time until it is worth trying."""
        if self._rate is None:
            return
        now = self._clock.monotonic()
        left, at = self._buckets.get(tenant, (self._rate, now))
        left = min(self._rate, left + (now - at) * self._rate)
        if left <= 0:
            wait = timedelta(seconds=max(1.0, -left / self._rate))
            raise Refused(
                Reason.RATE_LIMITED, f"more than {self._rate:g} spans/s from one tenant", wait
            )
        self._buckets[tenant] = (left - spans, now)


class Admission:
    """The questions that are asked before a request's body is looked at."""

    def __init__(
        self,
        authenticator: Authenticator,
        memory: MemoryBudget,
        *,
        log_bytes: int,
        backlog: Callable[[], int],
    ) -> None:
        self._authenticator = authenticator
        self._log_bytes = log_bytes
        self._backlog = backlog
        self.memory = memory

    def identify(self, token: str | None, peer_is_loopback: bool) -> Identity:
        """Name the sender. Raises Refused: 401 when unknown, 403 when it may not send."""
        identity = self._authenticator.identify(token, peer_is_loopback)
        if identity is None:
            raise Refused(
                Reason.UNAUTHENTICATED,
                "no valid key: send 'Authorization: Bearer twk_…' or 'x-api-key: twk_…'",
            )
        if not identity.may_ingest:
            raise Refused(
                Reason.FORBIDDEN, f"a key with role '{identity.role.value}' may not send telemetry"
            )
        return identity

    def knows(self, token: str | None, peer_is_loopback: bool) -> bool:
        """Say whether this is anybody at all: enough to read the receiver's own figures."""
        return self._authenticator.identify(token, peer_is_loopback) is not None

    def check_log(self) -> None:
        """Refuse while more of the log waits for the store than may."""
        if self._backlog() > self._log_bytes:
            raise Refused(
                Reason.LOG_FULL, "the store is far behind the write-ahead log", _LOG_DRAINS_IN
            )
