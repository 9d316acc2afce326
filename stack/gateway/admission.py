"""May this request go to the engines? Key, model, the tenant's own limits, then the policy."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from stack.gateway.limits import Limiter, OverLimit
from stack.gateway.policy import Candidate, Rule, Shed, decide
from stack.gateway.tenants import Tenant, TenantBook
from stack.registry.catalog import Catalog
from stack.wire.openai_api import Ask, error_body
from stack.wire.outcome import Outcome, Reason, failed

_JITTER = 0.5


class Refusal(Exception):  # noqa: N818  it is an answer, not a fault
    """An answer that is not the engine's, and how it counts."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str,
        code: str,
        reason: Reason,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, kind, code)
        self.headers = dict(headers or {})
        self.outcome: Outcome = failed(reason, code)


class PolicySource(Protocol):
    """Where the rules in force come from."""

    @property
    def rules(self) -> Sequence[Rule]: ...


class NoPolicy:
    """A gateway without a control plane."""

    rules: Sequence[Rule] = ()


class Admission:
    """Says yes by returning and no by raising Refusal."""

    def __init__(
        self, tenants: TenantBook, catalog: Catalog, limiter: Limiter, policy: PolicySource
    ) -> None:
        self._tenants = tenants
        self._catalog = catalog
        self._limiter = limiter
        self._policy = policy

    def caller(self, headers: Mapping[str, str]) -> Tenant:
        """Find who calls. The key is looked at here and goes no further."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key")
        tenant = self._tenants.identify(key)
        if tenant is None:
            raise Refusal(
                401,
                "no valid API key: send it as 'Authorization: Bearer KEY'",
                kind="authentication_error",
                code="invalid_api_key",
                reason=Reason.CLIENT_ERROR,
                headers={"www-authenticate": "Bearer"},
            )
        return tenant

    def admit(self, tenant: Tenant, ask: Ask, request_id: str, priority: str) -> None:
        """Check model, limits and policy, in this order.

        The tenant's own limit comes before the policy: who is over a quota is refused for that
        and spends no error budget.
        """
        if not self._catalog.knows(ask.model):
            raise Refusal(
                404,
                f"the model {ask.model!r} does not exist: see GET /v1/models",
                kind="invalid_request_error",
                code="model_not_found",
                reason=Reason.CLIENT_ERROR,
            )
        over = self._limiter.check(tenant, ask.prompt_tokens)
        if over is not None:
            raise _over_limit(tenant, over, self._limiter.headers(tenant))
        shed = decide(
            self._policy.rules,
            Candidate(
                request_id=request_id,
                tenant=tenant.id,
                route=ask.path,
                priority=priority,
                model=ask.model,
                active=self._limiter.active(tenant.id),
            ),
        )
        if shed is not None:
            raise _shed(shed)


def _over_limit(tenant: Tenant, over: OverLimit, headers: Mapping[str, str]) -> Refusal:
    retry = {} if over.retry_after_s is None else {"retry-after": _seconds(over.retry_after_s)}
    advice = "" if retry else ": this request alone is larger, waiting will not help"
    return Refusal(
        429,
        f"{tenant.id} reached its limit of {over.limit} {over.what}{advice}",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        reason=Reason.QUOTA,
        headers={**headers, **retry},
    )


def _shed(shed: Shed) -> Refusal:
    # Jitter, or everyone who is shed now comes back in the same second.
    wait = shed.retry_after_s * (1 + _JITTER * random.random())
    return Refusal(
        429,
        f"overloaded, try again later: {shed.reason}",
        kind="overloaded_error",
        code="shed",
        reason=Reason.SHED,
        headers={
            "retry-after": _seconds(wait),
            "x-tokenweir-shed-reason": _header_text(shed.reason),
        },
    )


def _seconds(seconds: float) -> str:
    return str(max(1, math.ceil(seconds)))


def _header_text(text: str) -> str:
    return "".join(c if " " <= c <= "~" else "?" for c in text)[:200]
