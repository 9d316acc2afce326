"""Evidence made by hand, for the pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from world import START

from actuators.decide import Snapshot
from actuators.diagnose import diagnose
from actuators.evidence import (
    Absent,
    Evidence,
    Fleet,
    FleetState,
    Known,
    ReplicaLoad,
    TenantLoad,
    Value,
)
from actuators.settings import ActuatorSettings
from actuators.trust import burning, judge_trust
from slo.verdict import State, TierVerdict, Verdict


def number(value: float | None) -> Value[float]:
    return Absent("not measured") if value is None else Known(value, START)


def tenant(name: str, offered: float, usual: float | None = 1000.0) -> TenantLoad:
    return TenantLoad(
        tenant=name,
        arrivals_per_s=offered / 100,
        refused_per_s=0.0,
        prompt_tokens_per_s=offered,
        admitted_work_per_s=offered,
        offered_work_per_s=offered,
        baseline_work_per_s=usual,
    )


def replica(name: str, tpot_ms: float = 20.0, requests: int = 100) -> ReplicaLoad:
    return ReplicaLoad(name, requests, 0, 1000.0, 300.0, tpot_ms, 5.0)


def fleet(
    desired: int = 2,
    *,
    capacity: float | None = 10_000.0,
    ready: int | None = None,
    peak: float | None = None,
    **changes: Any,
) -> Fleet:
    there = desired if ready is None else ready
    state = FleetState(desired, there, desired - there, 1, 6)
    made = Fleet("chat", Known(state, START), number(capacity), number(peak))
    return replace(made, **changes)


def verdict(burn: float | None = 20.0, *, state: State | None = None) -> Verdict:
    hot = burn is not None and burn >= 10
    tier = TierVerdict(
        "fast", "page", 10, timedelta(hours=1), timedelta(minutes=5), burn, burn, hot
    )
    return Verdict(
        slo="chat",
        group={},
        objective=0.99,
        window=timedelta(days=30),
        good=100,
        bad=1,
        excluded=0,
        sli=0.99,
        budget_remaining=0.5,
        burn={"5m": burn, "1h": burn},
        coverage=1.0,
        watermark=START,
        state=state or (State.BURNING if hot else State.OK),
        tiers=(tier,),
        bad_reasons={},
        at=START,
        expires_in=None,
        labels={},
        annotations={},
    )


def evidence(**changes: Any) -> Evidence:
    """A quiet service with three tenants; keyword arguments change single fields."""
    tenants = changes.pop("tenants", tuple(tenant(n, 1000.0) for n in ("acme", "beta", "gamma")))
    made = Evidence(
        scope="demo",
        at=START,
        window=timedelta(minutes=1),
        source=Known(START, START),
        missing_sources=(),
        arrivals_per_s=number(30.0),
        prompt_tokens_per_s=number(3000.0),
        completion_tokens_per_s=number(300.0),
        offered_work_per_s=number(sum(t.offered_work_per_s for t in tenants)),
        queue_p95_ms=number(5.0),
        ttft_p50_ms=number(100.0),
        ttft_p95_ms=number(200.0),
        bad_ratio=number(0.0),
        outcomes={"good/ok": 1800},
        tenants=tenants,
        fleets=(fleet(),),
        verdicts=(verdict(),),
    )
    return replace(made, **changes)


def snapshot(seen: Evidence, settings: ActuatorSettings, **changes: Any) -> Snapshot:
    trust = judge_trust(seen)
    made = Snapshot(
        evidence=seen,
        trust=trust,
        causes=diagnose(seen, trust, settings),
        hot=burning(seen.verdicts, settings),
        leases=(),
        now=START,
    )
    return replace(made, **changes)
