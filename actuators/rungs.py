"""The ladder: which levers help against which cause, cheapest harm first. Pure.

A tenant flood:     scale out if requests wait, and shed the tenant; if that fails, cap it.
Too much demand:    scale out, and pause what is marked as batch.
One slow replica:   one more replica to carry its part.
Upstream errors, a telemetry fault, the unknown: no lever here mends these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from actuators.capacity import is_queueing, need, total_capacity
from actuators.diagnose import Cause, CauseKind
from actuators.evidence import Evidence, TenantLoad, known
from actuators.lease import Expect, Kind, Lease, OnExpiry
from actuators.proposal import Proposal, Step
from actuators.settings import ActuatorSettings, FleetSettings

_LEAST_SHED = 0.05
_BATCH_SHARE = 0.1
_RETRY_AFTER_S = (1, 60)


def rungs_for(
    cause: Cause, evidence: Evidence, leases: Sequence[Lease], settings: ActuatorSettings
) -> tuple[Proposal, ...]:
    """Return the levers for one cause in the order they should be tried.

    Levers of different targets are meant together, levers of one target one after the other.
    """
    out: list[Proposal] = []
    match cause.kind:
        case CauseKind.FLOOD:
            if is_queueing(evidence, settings.thresholds):
                out += _scale_out(cause, evidence, settings, at_least_one=False)
            out += _hold_back(cause, evidence, settings)
        case CauseKind.DEMAND:
            out += _scale_out(cause, evidence, settings, at_least_one=True)
            out += _pause_batch(cause, evidence, settings)
        case CauseKind.SLOW_REPLICA:
            already = any(x.kind is Kind.SCALE and x.cause == cause.key for x in leases)
            out += _scale_out(cause, evidence, settings, at_least_one=not already)
        case _:
            pass
    return tuple(out)


def shed_fraction(
    load: TenantLoad, baseline: float, evidence: Evidence, settings: ActuatorSettings
) -> float:
    """Size a shed from the excess over what the tenant may keep.

    It keeps the largest of: its usual work with some growth, an equal part of everybody's usual
    work, and the room that the others leave at measured capacity, less what it takes to work off
    the queue within the time the effect is promised in. Room that contradicts the queue (there
    seems to be space, yet requests wait) is not believed.
    """
    limits = settings.thresholds
    usual = [t.baseline_work_per_s or 0.0 for t in evidence.tenants if t.tenant != load.tenant]
    keep = max(limits.growth * baseline, (sum(usual) + baseline) / (len(usual) + 1))
    capacity = total_capacity(evidence, settings.fleets_behind(evidence.scope))
    if capacity is not None:
        others = sum(t.offered_work_per_s for t in evidence.tenants) - load.offered_work_per_s
        queue_s = (known(evidence.queue_p95_ms) or 0.0) / 1000
        drain = capacity * queue_s / settings.verify_within.total_seconds()
        room = limits.headroom * capacity - others - drain
        contradicted = is_queueing(evidence, limits) and room >= load.offered_work_per_s
        keep = keep if contradicted else max(keep, room)
    fraction = 1 - keep / load.offered_work_per_s if load.offered_work_per_s > 0 else 0.0
    return min(settings.limits.max_shed_fraction, math.ceil(max(0.0, fraction) * 100) / 100)


def retry_after_s(evidence: Evidence, fraction: float) -> int:
    """Estimate when a refused client would get in: the standing queue, at what is still let in."""
    queue_s = (known(evidence.queue_p95_ms) or 0.0) / 1000
    low, high = _RETRY_AFTER_S
    return max(low, min(high, math.ceil(queue_s / max(0.05, 1 - fraction))))


def _hold_back(cause: Cause, evidence: Evidence, settings: ActuatorSettings) -> Sequence[Proposal]:
    load = evidence.tenant(cause.subject)
    if load is None or not settings.gateways:
        return ()
    baseline = cause.numbers["baseline_work_per_s"]
    fraction = shed_fraction(load, baseline, evidence, settings)
    out = []
    if fraction >= _LEAST_SHED:
        out.append(
            _gateway_lever(
                cause,
                evidence,
                settings,
                Kind.SHED,
                subject=f"tenant={load.tenant}",
                change=_shed(evidence, fraction, tenant=load.tenant),
                reason=f"shed {fraction:.0%} of tenant {load.tenant}: it offers "
                f"{load.offered_work_per_s:,.0f} tokens/s of work, usually {baseline:,.0f}",
            )
        )
    ready = sum(s.ready for f in evidence.fleets if (s := known(f.state)) is not None)
    at_once = max(1, ready)
    out.append(
        _gateway_lever(
            cause,
            evidence,
            settings,
            Kind.CAP,
            subject=f"tenant={load.tenant}",
            change={
                "match": {"tenant": load.tenant},
                "max_concurrency": at_once,
                "retry_after_s": retry_after_s(evidence, 0.5),
            },
            reason=f"let tenant {load.tenant} run {at_once} requests at once",
        )
    )
    return out


def _pause_batch(
    cause: Cause, evidence: Evidence, settings: ActuatorSettings
) -> Sequence[Proposal]:
    total = sum(t.admitted_work_per_s for t in evidence.tenants)
    batch = evidence.priorities.get("batch", 0.0)
    waiting = is_queueing(evidence, settings.thresholds)
    if not settings.gateways or not waiting or total <= 0 or batch / total < _BATCH_SHARE:
        return ()
    fraction = settings.limits.max_shed_fraction
    return (
        _gateway_lever(
            cause,
            evidence,
            settings,
            Kind.SHED,
            subject="priority=batch",
            change=_shed(evidence, fraction, priority="batch"),
            reason=f"pause batch: it is {batch / total:.0%} of the work while others wait",
        ),
    )


def _shed(evidence: Evidence, fraction: float, **match: str) -> dict[str, Any]:
    return {
        "match": match,
        "fraction": fraction,
        "retry_after_s": retry_after_s(evidence, fraction),
    }


def _gateway_lever(
    cause: Cause,
    evidence: Evidence,
    settings: ActuatorSettings,
    kind: Kind,
    *,
    subject: str,
    change: Mapping[str, Any],
    reason: str,
) -> Proposal:
    return Proposal(
        step=Step.OPEN,
        target=f"gateway/{evidence.scope}",
        subject=subject,
        kind=kind,
        change=change,
        reason=reason,
        cause=cause.key,
        expect=expectation(evidence, settings, settings.verify_within),
        on_expiry=OnExpiry.REVERT,
        numbers=cause.numbers,
    )


def _scale_out(
    cause: Cause, evidence: Evidence, settings: ActuatorSettings, *, at_least_one: bool
) -> Sequence[Proposal]:
    """Ask for the replicas the work needs; without a measured capacity, for one more."""
    out = []
    for fleet in settings.fleets_behind(evidence.scope):
        seen = evidence.fleet(fleet.name)
        state = known(seen.state) if seen else None
        if seen is None or state is None:
            continue
        wanted = need(evidence, seen, settings.thresholds)
        settled = state.ready >= state.desired
        if settled and (at_least_one or wanted is None):
            wanted = max(wanted or 0, state.desired + 1)
        wanted = min(wanted or 0, fleet.max, state.max)
        if wanted > state.desired:
            out.append(_scale(cause, evidence, settings, fleet, state.desired, wanted))
    return out


def _scale(
    cause: Cause,
    evidence: Evidence,
    settings: ActuatorSettings,
    fleet: FleetSettings,
    present: int,
    wanted: int,
) -> Proposal:
    offered = known(evidence.offered_work_per_s)
    work = "unknown work" if offered is None else f"{offered:,.0f} tokens/s of work"
    return Proposal(
        step=Step.OPEN,
        target=f"fleet/{fleet.name}",
        subject="",
        kind=Kind.SCALE,
        change={"desired": wanted},
        reason=f"scale {fleet.name} from {present} to {wanted} replicas for {work}",
        cause=cause.key,
        expect=expectation(evidence, settings, settings.verify_within + fleet.cold_start),
        revert_to={"desired": present},
        on_expiry=OnExpiry.KEEP,
        numbers=cause.numbers,
    )


def expectation(evidence: Evidence, settings: ActuatorSettings, within: timedelta) -> Expect:
    """Choose the metric that shows the trouble best: the queue, else TTFT, else the burn rate."""
    queueing_ms = settings.thresholds.queueing_ms
    for name, enough in (("queue_p95_ms", queueing_ms), ("ttft_p95_ms", 0.0), ("burn", 1.0)):
        before = known(evidence.metric(name))
        if before is not None and before > enough:
            return Expect(name, "down", settings.effect, within, before, enough)
    return Expect("bad_ratio", "down", settings.effect, within, known(evidence.bad_ratio), 0.0)
