"""What is known, what is only remembered, and what was never there.

Every number the loop decides on is a `Value`. A consumer must say what it does with each of the
three cases; a missing number is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeAlias, TypeVar

from slo.verdict import Verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """Measured, and recent enough to act on. `coverage` is the part of the sources that spoke."""

    value: T
    at: datetime
    coverage: float = 1.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Stale(Generic[T]):
    """Was known once. Good for showing and for holding still, never for a new action."""

    last: T
    at: datetime
    age: timedelta


@dataclass(frozen=True, slots=True)
class Absent:
    """Not known, and why."""

    why: str


Value: TypeAlias = Known[T] | Stale[T] | Absent


def known(value: Value[T]) -> T | None:
    """Return what may be acted on, or None."""
    return value.value if isinstance(value, Known) else None


def finite(number: float | None) -> float | None:
    """Drop what is not a number: ClickHouse answers NaN for a quantile of nothing."""
    return None if number is None or not math.isfinite(number) else float(number)


def measured(
    number: float | None, at: datetime, source: str, *, coverage: float = 1.0, why: str = "no data"
) -> Value[float]:
    """Wrap a number from a query: None, NaN and infinities are absent."""
    value = finite(number)
    return Absent(why) if value is None else Known(value, at, coverage, source)


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """One tenant's traffic in the window, as far as it ended in it.

    Work is prefill-token equivalents per second: uncached prompt tokens plus weighted completion
    tokens. `offered` adds what was refused (shed, or no room) or given up while waiting, at the
    tenant's mean work per served request. `baseline` is the usual served work before the window;
    None while too little of that time is covered.
    """

    tenant: str
    arrivals_per_s: float
    refused_per_s: float
    prompt_tokens_per_s: float
    admitted_work_per_s: float
    offered_work_per_s: float
    baseline_work_per_s: float | None


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """One replica's traffic in the window; None where its requests did not say."""

    replica: str
    requests: int
    errors: int
    work_per_s: float
    ttft_p95_ms: float | None
    tpot_p50_ms: float | None
    queue_p95_ms: float | None


@dataclass(frozen=True, slots=True)
class FleetState:
    """What the fleet says about itself (or, where nobody can be asked, what its heartbeats say)."""

    desired: int
    ready: int
    pending: int
    min: int
    max: int
    replicas: tuple[str, ...] = ()
    changed_by: str | None = None
    changed_lease: str | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet's state and what one of its replicas can do, both as far as they are known."""

    name: str
    state: Value[FleetState]
    capacity_per_replica: Value[float]  # work per second
    peak_work_per_s: Value[float]  # the busiest window of late
    silent: tuple[str, ...] = ()  # replicas that used to send heartbeats and stopped


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that one decision is based on: a snapshot of one scope at one instant."""

    scope: str
    at: datetime
    window: timedelta
    source: Value[datetime]  # newest telemetry of the layer that counts requests
    missing_sources: tuple[str, ...]
    arrivals_per_s: Value[float]
    prompt_tokens_per_s: Value[float]
    completion_tokens_per_s: Value[float]
    offered_work_per_s: Value[float]
    queue_p95_ms: Value[float]
    ttft_p50_ms: Value[float]
    ttft_p95_ms: Value[float]
    bad_ratio: Value[float]  # sheds left out: they are ours
    outcomes: Mapping[str, int] = field(default_factory=dict)  # "bad/upstream_error" -> requests
    tenants: tuple[TenantLoad, ...] = ()
    priorities: Mapping[str, float] = field(default_factory=dict)  # admitted work per second
    replicas: tuple[ReplicaLoad, ...] = ()
    fleets: tuple[Fleet, ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    def metric(self, name: str) -> Value[float]:
        """Look a verification metric up by the name a lease stores."""
        found: dict[str, Value[float]] = {
            "queue_p95_ms": self.queue_p95_ms,
            "ttft_p95_ms": self.ttft_p95_ms,
            "bad_ratio": self.bad_ratio,
            "burn": self._burn(),
        }
        return found.get(name, Absent(f"no metric is called {name!r}"))

    def fleet(self, name: str) -> Fleet | None:
        """Find a fleet by name."""
        return next((f for f in self.fleets if f.name == name), None)

    def tenant(self, name: str) -> TenantLoad | None:
        """Find a tenant's load; None when it sent nothing."""
        return next((t for t in self.tenants if t.tenant == name), None)

    def _burn(self) -> Value[float]:
        """Return the worst short-window burn of the fastest tiers."""
        fast = [min(v.tiers, key=lambda t: (t.short, t.long)) for v in self.verdicts if v.tiers]
        spoken = [t.short_burn for t in fast if t.short_burn is not None]
        if not spoken:
            return Absent("no verdict has a burn rate")
        return measured(max(spoken), self.at, "slo")


def blind(
    scope: str, verdicts: tuple[Verdict, ...], at: datetime, window: timedelta, why: str
) -> Evidence:
    """Return the evidence of a scope of which nothing could be read."""
    unknown = Absent(why)
    return Evidence(
        scope=scope,
        at=at,
        window=window,
        source=unknown,
        missing_sources=(),
        arrivals_per_s=unknown,
        prompt_tokens_per_s=unknown,
        completion_tokens_per_s=unknown,
        offered_work_per_s=unknown,
        queue_p95_ms=unknown,
        ttft_p50_ms=unknown,
        ttft_p95_ms=unknown,
        bad_ratio=unknown,
        verdicts=verdicts,
    )
