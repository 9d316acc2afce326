"""Why is the budget burning? Ranked causes, each with the sentences that support it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from actuators.capacity import is_queueing, need, total_capacity
from actuators.evidence import Evidence, ReplicaLoad, TenantLoad, known
from actuators.settings import ActuatorSettings
from actuators.trust import Trust


class CauseKind(StrEnum):
    TELEMETRY = "telemetry_fault"
    FLOOD = "tenant_flood"
    DEMAND = "demand_beyond_capacity"
    SLOW_REPLICA = "slow_replica"
    UPSTREAM = "upstream_errors"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Cause:
    """One explanation. `score` orders explanations of one snapshot; it is no probability."""

    kind: CauseKind
    score: float
    subject: str = ""  # the tenant or the replica
    because: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name the cause as leases remember it."""
        return f"{self.kind}:{self.subject}" if self.subject else str(self.kind)


def diagnose(
    evidence: Evidence,
    trust: Trust,
    settings: ActuatorSettings,
    anchors: Mapping[str, float] | None = None,
) -> tuple[Cause, ...]:
    """Rank the causes, the most likely first; there is always at least one.

    `anchors` are the baselines (work per second) that tenants had when a lease on them was
    opened: a flood that lasts must not become its own normal.
    """
    if not trust.ok:
        return (Cause(CauseKind.TELEMETRY, 1.0, because=trust.reasons),)
    found = [
        *_flood(evidence, settings, anchors or {}),
        *_slow_replicas(evidence, settings),
        *_upstream(evidence, settings),
        *_demand(evidence, settings),
    ]
    if not found:
        return (Cause(CauseKind.UNKNOWN, 0.0, because=("no known pattern fits",)),)
    return tuple(sorted(found, key=lambda c: (-c.score, c.kind, c.subject)))


def baseline_of(load: TenantLoad, anchors: Mapping[str, float]) -> float | None:
    """Return what is normal for a tenant: a lease's anchor, its own past, or None."""
    return anchors.get(load.tenant, load.baseline_work_per_s)


def _flood(
    evidence: Evidence, settings: ActuatorSettings, anchors: Mapping[str, float]
) -> Sequence[Cause]:
    """Find the tenant that brought most of what came on top of everybody's usual work.

    Growth that there is room for floods nobody, whatever else burns the budget.
    """
    limits = settings.thresholds
    total = sum(t.offered_work_per_s for t in evidence.tenants)
    usual = {t.tenant: baseline_of(t, anchors) for t in evidence.tenants}
    if total <= 0 or any(b is None for b in usual.values()):
        return ()
    capacity = total_capacity(evidence, settings.fleets_behind(evidence.scope))
    fits = capacity is not None and total <= limits.headroom * capacity
    if fits and not is_queueing(evidence, limits):
        return ()
    excess = {
        t.tenant: max(0.0, t.offered_work_per_s - (usual[t.tenant] or 0.0))
        for t in evidence.tenants
    }
    all_excess = sum(excess.values())
    largest = sorted(evidence.tenants, key=lambda t: (-excess[t.tenant], t.tenant))[:3]
    return [
        _flood_cause(load, usual[load.tenant] or 0.0, share, part, evidence, settings)
        for load in largest
        if len(evidence.tenants) > 1
        and load.offered_work_per_s >= limits.flood_factor * (usual[load.tenant] or 0.0)
        and (share := load.offered_work_per_s / total) >= limits.flood_share
        and (part := excess[load.tenant] / all_excess if all_excess else 0.0) >= 0.5
    ]


def _flood_cause(
    load: TenantLoad,
    usual: float,
    share: float,
    part: float,
    evidence: Evidence,
    settings: ActuatorSettings,
) -> Cause:
    queue = known(evidence.queue_p95_ms)
    waits = queue is None or queue >= settings.thresholds.queueing_ms
    harmless = not waits and not load.refused_per_s  # refused, it is harmless because of that
    times = f"{load.offered_work_per_s / usual:.1f} times" if usual else "up from no"
    offers = f"tenant {load.tenant} offers {load.offered_work_per_s:,.0f} tokens/s of work"
    return Cause(
        CauseKind.FLOOD,
        score=(0.3 if harmless else 1.0) * (0.5 + part / 2),
        subject=load.tenant,
        because=(
            f"{offers}, {times} its usual {usual:,.0f}",
            f"that is {share:.0%} of all work and {part:.0%} of what is new",
        ),
        numbers={
            "offered_work_per_s": load.offered_work_per_s,
            "baseline_work_per_s": usual,
            "share": share,
            "excess_share": part,
        },
    )


def _demand(evidence: Evidence, settings: ActuatorSettings) -> Sequence[Cause]:
    """Find more work than replicas: requests wait, or the arithmetic says they must."""
    queue = known(evidence.queue_p95_ms)
    queueing = is_queueing(evidence, settings.thresholds)
    because = []
    if queueing:
        because.append(
            f"95 % of requests wait up to {queue:,.0f} ms "
            f"(limit {settings.thresholds.queueing_ms:,.0f})"
        )
    short = 0
    for fleet in evidence.fleets:
        state = known(fleet.state)
        wanted = need(evidence, fleet, settings.thresholds)
        if state is not None and wanted is not None and wanted > state.desired:
            short += wanted - state.desired
            because.append(
                f"fleet {fleet.name} has {state.desired} replicas, the work needs {wanted}"
            )
    if not queueing and not short:
        return ()
    score = 0.7 if queueing else 0.4
    numbers = {"queue_p95_ms": queue} if queue is not None else {}
    return (Cause(CauseKind.DEMAND, score, because=tuple(because), numbers=numbers),)


def _slow_replicas(evidence: Evidence, settings: ActuatorSettings) -> Sequence[Cause]:
    """Find one replica far slower than the median of the others."""
    limits = settings.thresholds
    judged = [r for r in evidence.replicas if r.requests >= limits.enough_requests]
    if len(judged) < 3:  # of two, nobody knows which one is the odd one
        return ()
    worst: tuple[float, ReplicaLoad, str] | None = None
    for name in ("tpot_p50_ms", "ttft_p95_ms"):
        seen = [(r, getattr(r, name)) for r in judged]
        values = sorted(
            ((v, r) for r, v in seen if v is not None), key=lambda p: (p[0], p[1].replica)
        )
        if len(values) < 3:
            continue
        top, replica = values[-1]
        others = median(v for v, _ in values[:-1])
        if others > 0 and top >= limits.slow_factor * others:
            ratio = top / others
            if worst is None or ratio > worst[0]:
                worst = (ratio, replica, f"{name} is {top:,.0f}, the others' median {others:,.0f}")
    if worst is None:
        return ()
    ratio, replica, why = worst
    return (
        Cause(
            CauseKind.SLOW_REPLICA,
            score=0.8,
            subject=replica.replica,
            because=(f"replica {replica.replica}: {why}",),
            numbers={"times_slower": ratio},
        ),
    )


def _upstream(evidence: Evidence, settings: ActuatorSettings) -> Sequence[Cause]:
    """Find errors of the engines or providers, which no capacity lever mends."""
    counted = {k: n for k, n in evidence.outcomes.items() if not k.startswith("excluded/")}
    total = sum(counted.values())
    failed = sum(n for k, n in counted.items() if k in {"bad/upstream_error", "bad/stream_cut"})
    if total < settings.thresholds.enough_requests or not failed:
        return ()
    share = failed / total
    if share < settings.thresholds.error_share:
        return ()
    return (
        Cause(
            CauseKind.UPSTREAM,
            score=0.9 if not is_queueing(evidence, settings.thresholds) else 0.6,
            because=(f"{share:.0%} of requests ended in upstream errors or cut streams",),
            numbers={"error_share": share},
        ),
    )
