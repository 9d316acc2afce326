"""A tenant's own limits: requests and tokens a minute, and requests at once.

Tokens are reserved by estimate when a request starts and settled by the engine's count when it
ends, so that many requests at once cannot all pass one check. A request nobody finished keeps
its reservation: the engine worked for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from base.clock import Clock
from stack.gateway.tenants import Tenant


@dataclass(slots=True)
class TokenBucket:
    """A minute's allowance that refills evenly; `level` may fall below zero when it is settled."""

    per_minute: int
    level: float
    filled_at: float

    def refill(self, now: float) -> None:
        gained = (now - self.filled_at) * self.per_minute / 60
        self.level = min(float(self.per_minute), self.level + gained)
        self.filled_at = now

    def wait_for(self, amount: float) -> float:
        """How many seconds until `amount` is there; infinite when it never will be."""
        if amount > self.per_minute:
            return math.inf
        return max(0.0, (amount - self.level) * 60 / self.per_minute)

    def until_full(self) -> float:
        return (self.per_minute - self.level) * 60 / self.per_minute


@dataclass(frozen=True, slots=True)
class OverLimit:
    """Which limit a request would break. `retry_after_s` None: waiting will not help."""

    what: str
    limit: int
    retry_after_s: float | None


@dataclass(slots=True)
class _Account:
    requests: TokenBucket | None
    tokens: TokenBucket | None
    active: int = 0


class Limiter:
    """Keeps every tenant's account. All calls are synchronous: one event loop, no races."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._accounts: dict[str, _Account] = {}

    def check(self, tenant: Tenant, tokens: int) -> OverLimit | None:
        """Say whether a request fits now, taking nothing."""
        account = self._account(tenant)
        if tenant.max_concurrency is not None and account.active >= tenant.max_concurrency:
            return OverLimit("concurrent requests", tenant.max_concurrency, 1.0)
        for what, bucket, amount in (
            ("requests per minute", account.requests, 1),
            ("tokens per minute", account.tokens, tokens),
        ):
            if bucket is not None and (wait := bucket.wait_for(amount)) > 0:
                return OverLimit(what, bucket.per_minute, None if math.isinf(wait) else wait)
        return None

    def start(self, tenant: Tenant, tokens: int) -> None:
        """Take one request and `tokens` reserved tokens; `finish` must follow."""
        account = self._account(tenant)
        account.active += 1
        if account.requests is not None:
            account.requests.level -= 1
        if account.tokens is not None:
            account.tokens.level -= tokens

    def finish(self, tenant: Tenant, reserved: int, used: int | None) -> None:
        """Give the place back and settle; `used` None means nobody counted."""
        account = self._account(tenant)
        account.active -= 1
        if account.tokens is not None and used is not None:
            account.tokens.level = min(
                float(account.tokens.per_minute), account.tokens.level + reserved - used
            )

    def active(self, tenant: str) -> int:
        """How many of a tenant's requests are in the gateway now."""
        account = self._accounts.get(tenant)
        return account.active if account else 0

    def headers(self, tenant: Tenant) -> dict[str, str]:
        """Write OpenAI's `x-ratelimit-*` headers; a limit that is not set has none."""
        account = self._account(tenant)
        out: dict[str, str] = {}
        for name, bucket in (("requests", account.requests), ("tokens", account.tokens)):
            if bucket is not None:
                out[f"x-ratelimit-limit-{name}"] = str(bucket.per_minute)
                out[f"x-ratelimit-remaining-{name}"] = str(max(0, math.floor(bucket.level)))
                out[f"x-ratelimit-reset-{name}"] = reset_text(bucket.until_full())
        return out

    def _account(self, tenant: Tenant) -> _Account:
        now = self._clock.monotonic()
        account = self._accounts.get(tenant.id)
        if account is None:
            account = self._accounts[tenant.id] = _Account(
                _full(tenant.requests_per_minute, now), _full(tenant.tokens_per_minute, now)
            )
        for bucket in (account.requests, account.tokens):
            if bucket is not None:
                bucket.refill(now)
        return account


def reset_text(seconds: float) -> str:
    """Write seconds as OpenAI does: 120ms, 1s, 6m0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    whole = math.ceil(seconds)
    return f"{whole // 60}m{whole % 60}s" if whole >= 60 else f"{whole}s"


def _full(per_minute: int | None, now: float) -> TokenBucket | None:
    return None if per_minute is None else TokenBucket(per_minute, float(per_minute), now)
