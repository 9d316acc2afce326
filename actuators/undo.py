"""Giving back: one step at a time, traffic before capacity, slower than it was taken. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from actuators.capacity import need, total_capacity
from actuators.evidence import Evidence, FleetState, TenantLoad, known
from actuators.lease import Expect, Kind, Lease, LeaseState, OnExpiry, lease_key
from actuators.lease_evidence import anchors
from actuators.proposal import Proposal, Step
from actuators.settings import ActuatorSettings, FleetSettings
from actuators.trust import burns_nowhere

_LEAST_FRACTION = 0.1  # a smaller shed is ended, not halved again
_CALM = "calm"

Recent = Mapping[str, tuple[datetime, ...]]


def undo(
    evidence: Evidence,
    leases: Sequence[Lease],
    recent: Recent,
    cold: frozenset[str],
    *,
    calm: timedelta,
    settings: ActuatorSettings,
    now: datetime,
) -> tuple[Proposal, ...]:
    """Propose at most one step back; `calm` is how long it has been calm.

    `cold` names levers that failed of late: a fleet that could not do with less is left alone.
    """
    last = max((lease.changed_at for lease in leases), default=None)
    if last is not None and now - last < settings.undo_every:
        return ()
    newest_first = sorted(leases, key=lambda x: (x.kind is Kind.SCALE, -x.created_at.timestamp()))
    for lease in newest_first:
        if lease.state is LeaseState.FROZEN or lease.pending is not None:
            continue
        if calm < settings.calm_for * patience(_needed_again(lease, recent)):
            continue
        step = _step_back(lease, evidence, leases, settings)
        if step is not None:
            return (step,)
    if not leases and settings.scale_in and burns_nowhere(evidence):
        return _scale_in(evidence, recent, cold, calm=calm, settings=settings, now=now)
    return ()


def patience(again: int) -> int:
    """Return how many times longer calm must last for a lever that was needed again so often.

    Each time within the last hour doubles it, up to eight; this damps alternating load.
    """
    return int(2 ** min(3, max(0, again)))


def _needed_again(lease: Lease, recent: Recent) -> int:
    """Count the earlier changes of this lever, and raises after an ease of this lease.

    Raises before the first ease only feel their way to the right size of one and the same need.
    """
    steps = [entry.step.removeprefix("would_") for entry in lease.history]
    eased = steps.index("eased") if "eased" in steps else len(steps)
    earlier = sum(1 for at in recent.get(lease.key, ()) if at < lease.created_at)
    return earlier + steps[eased:].count("raised")


def _step_back(
    lease: Lease, evidence: Evidence, leases: Sequence[Lease], settings: ActuatorSettings
) -> Proposal | None:
    match lease.kind:
        case Kind.SHED:
            return _ease_shed(lease, evidence, settings)
        case Kind.CAP:
            return _back(lease, Step.END, {}, "calm: the cap is lifted")
        case Kind.SCALE:
            if any(other.kind is not Kind.SCALE for other in leases):
                return None  # traffic comes back before capacity goes
            return _ease_scale(lease, evidence, settings)


def _ease_shed(lease: Lease, evidence: Evidence, settings: ActuatorSettings) -> Proposal | None:
    present = float(lease.change["fraction"])
    fraction = round(present / 2, 2)
    if fraction < _LEAST_FRACTION:
        fraction = 0.0
    capacity = total_capacity(evidence, settings.fleets_behind(evidence.scope))
    subject, _, name = lease.subject.partition("=")
    load = evidence.tenant(name) if subject == "tenant" else None
    if capacity is not None and load is not None:
        others = sum(t.offered_work_per_s for t in evidence.tenants) - load.offered_work_per_s
        after = others + load.offered_work_per_s * (1 - fraction)
        if after > settings.thresholds.headroom * capacity:
            return None
    if subject == "tenant" and _is_over(lease, load, settings):
        return _back(lease, Step.END, {}, f"calm, and {name} sends no more than others can bear")
    if fraction == 0.0:
        return _back(lease, Step.END, {}, "calm, and there is room for all of it")
    why = f"calm: shed {fraction:.0%} instead of {present:.0%}"
    return _back(lease, Step.EASE, {**lease.change, "fraction": fraction}, why)


def _is_over(lease: Lease, load: TenantLoad | None, settings: ActuatorSettings) -> bool:
    """Say whether a flood has ended: going on to refuse its tenant would only harm."""
    usual = anchors([lease]).get(lease.subject.removeprefix("tenant="))
    if load is None or usual is None:
        return False
    return load.offered_work_per_s < settings.thresholds.flood_factor * usual


def _ease_scale(lease: Lease, evidence: Evidence, settings: ActuatorSettings) -> Proposal | None:
    desired, floor = int(lease.change["desired"]), int(lease.revert_to["desired"])
    if desired <= floor:
        return None  # a scale-in: its own verification ends it
    fleet = lease.target.partition("/")[2]
    behind = settings.fleets_behind(evidence.scope)
    configured = next((f for f in behind if f.name == fleet), None)
    if configured is None or not _can_spare(configured, desired, evidence, settings):
        return None
    if desired - 1 == floor:
        return _back(lease, Step.END, {}, f"calm: {fleet} back to {floor} replicas")
    why = f"calm: {fleet} from {desired} to {desired - 1} replicas"
    return _back(lease, Step.EASE, {"desired": desired - 1}, why)


def _scale_in(
    evidence: Evidence,
    recent: Recent,
    cold: frozenset[str],
    *,
    calm: timedelta,
    settings: ActuatorSettings,
    now: datetime,
) -> tuple[Proposal, ...]:
    """Go below what was found, when the load has been low for long."""
    for fleet in settings.fleets_behind(evidence.scope):
        seen = evidence.fleet(fleet.name)
        state = known(seen.state) if seen else None
        key = lease_key(f"fleet/{fleet.name}", "", Kind.SCALE)
        times = recent.get(key, ())
        waited = not times or now - max(times) >= settings.undo_every
        patient = calm >= settings.calm_for * patience(len(times) - 1)
        if state is None or not waited or not patient or f"{key}|{_CALM}" in cold:
            continue
        if _can_spare(fleet, state.desired, evidence, settings):
            return (_smaller(fleet, state, settings),)
    return ()


def _can_spare(
    fleet: FleetSettings, desired: int, evidence: Evidence, settings: ActuatorSettings
) -> bool:
    """Say whether one replica less still carries the work; what isn't known forbids it."""
    seen = evidence.fleet(fleet.name)
    state = known(seen.state) if seen else None
    if seen is None or state is None or seen.silent:
        return False
    if state.pending or desired - 1 < max(fleet.min, state.min, 1):
        return False
    wanted = need(evidence, seen, settings.thresholds, at_peak=True)
    if wanted is not None:
        return wanted <= desired - 1
    offered = known(evidence.offered_work_per_s)
    queue = known(evidence.queue_p95_ms)
    quiet = queue is not None and queue < settings.thresholds.queueing_ms / 10
    return offered == 0 or (quiet and burns_nowhere(evidence))


def _smaller(fleet: FleetSettings, state: FleetState, settings: ActuatorSettings) -> Proposal:
    wanted = state.desired - 1
    return Proposal(
        step=Step.OPEN,
        target=f"fleet/{fleet.name}",
        subject="",
        kind=Kind.SCALE,
        change={"desired": wanted},
        reason=f"calm and little load: {fleet.name} from {state.desired} to {wanted} replicas",
        cause=_CALM,
        expect=Expect(
            "queue_p95_ms",
            "hold",
            0.0,
            settings.verify_within,
            None,
            settings.thresholds.queueing_ms,
        ),
        revert_to={"desired": state.desired},
        on_expiry=OnExpiry.KEEP,
    )


def _back(lease: Lease, step: Step, change: Mapping[str, object], reason: str) -> Proposal:
    return Proposal(
        step=step,
        target=lease.target,
        subject=lease.subject,
        kind=lease.kind,
        change=change,
        reason=reason,
        cause=lease.cause,
        lease_id=lease.id,
        slo=lease.slo,
    )
