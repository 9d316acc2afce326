"""What may not be done, whatever the decision says. Pure.

The bounds live outside the model of the world: a wrong estimate can ask for anything, and gets
at most this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from actuators.evidence import Evidence, known
from actuators.lease import Kind, Lease
from actuators.proposal import Proposal, Step
from actuators.settings import ActuatorSettings


@dataclass(frozen=True, slots=True)
class Refused:
    """A proposal that was stopped. `rule` is from a closed set (it labels a metric)."""

    proposal: Proposal
    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Context:
    """What the guard looks at besides the proposal. Holds map a target to who holds it."""

    evidence: Evidence
    leases: Sequence[Lease]
    recent: Mapping[str, tuple[datetime, ...]]
    now: datetime
    holds: Mapping[str, str] = field(default_factory=dict)
    kill_switch: bool = False


def guard(
    proposals: Sequence[Proposal], context: Context, settings: ActuatorSettings
) -> tuple[tuple[Proposal, ...], tuple[Refused, ...]]:
    """Pass, clamp or refuse each proposal, in order; a passed one counts for the next."""
    allowed: list[Proposal] = []
    refused: list[Refused] = []
    for proposal in proposals:
        clamped = _clamp(proposal, context, settings)
        stopped = _refuse(clamped, context, allowed, settings)
        if stopped is None:
            allowed.append(clamped)
        else:
            refused.append(Refused(clamped, *stopped))
    return tuple(allowed), tuple(refused)


def _refuse(
    proposal: Proposal, context: Context, allowed: Sequence[Proposal], settings: ActuatorSettings
) -> tuple[str, str] | None:
    if context.kill_switch:
        return "kill_switch", "the kill switch is on"
    holder = context.holds.get(proposal.target)
    if holder is not None:
        return "hold", f"{proposal.target} is held by {holder}"
    if proposal.step in {Step.EASE, Step.END}:
        return None  # giving back is slowed by undo_every, never refused
    return (
        _refuse_protected(proposal, settings)
        or _refuse_empty(proposal, context)
        or _refuse_second(proposal, context, allowed)
        or _refuse_fast(proposal, context, settings)
    )


def _refuse_protected(proposal: Proposal, settings: ActuatorSettings) -> tuple[str, str] | None:
    name, _, value = proposal.subject.partition("=")
    protected = {
        "tenant": settings.limits.protected_tenants,
        "priority": settings.limits.protected_priorities,
    }
    if proposal.kind is Kind.SCALE:
        return None
    if not name:
        return "ceiling", "a refusal of everybody is never allowed"
    if value in protected.get(name, ()):
        return "protected", f"{name} {value} is protected"
    return None


def _refuse_empty(proposal: Proposal, context: Context) -> tuple[str, str] | None:
    """Refuse a scale that the bounds have left without effect."""
    if proposal.kind is not Kind.SCALE:
        return None
    fleet = context.evidence.fleet(proposal.target.partition("/")[2])
    state = known(fleet.state) if fleet else None
    if state is None:
        return "unknown", f"the state of {proposal.target} is not known"
    if int(proposal.change["desired"]) == state.desired:
        return "bounds", f"{proposal.target} is already at its bound of {state.desired}"
    return None


def _refuse_second(
    proposal: Proposal, context: Context, allowed: Sequence[Proposal]
) -> tuple[str, str] | None:
    """One lever of a kind in flight per target; one open lease per lever."""
    for lease in context.leases:
        same = lease.target == proposal.target and lease.kind is proposal.kind
        if proposal.step is Step.OPEN and lease.key == proposal.key:
            return "open_lease", f"lease {lease.id} is open on it"
        if same and lease.in_flight and lease.id != proposal.lease_id:
            return "in_flight", f"the effect of lease {lease.id} is not seen yet"
    if any(a.target == proposal.target and a.kind is proposal.kind for a in allowed):
        return "in_flight", "another change of this kind goes first"
    return None


def _refuse_fast(
    proposal: Proposal, context: Context, settings: ActuatorSettings
) -> tuple[str, str] | None:
    times = context.recent.get(proposal.key, ())
    if times and context.now - max(times) < settings.limits.cooldown:
        return "cooldown", f"last changed at {max(times):%H:%M:%S}"
    prefix = f"{proposal.target}|"
    hour = sum(len(t) for key, t in context.recent.items() if key.startswith(prefix))
    if hour >= settings.limits.changes_per_hour:
        return "rate", f"{hour} changes of {proposal.target} within the hour"
    return None


def _clamp(proposal: Proposal, context: Context, settings: ActuatorSettings) -> Proposal:
    if proposal.step is Step.END:
        return proposal
    match proposal.kind:
        case Kind.SHED:
            wanted = float(proposal.change["fraction"])
            # Not a number is no reason to refuse anybody.
            fraction = wanted if math.isfinite(wanted) else 0.0
            fraction = min(max(fraction, 0.0), settings.limits.max_shed_fraction)
            return _with(proposal, "fraction", fraction)
        case Kind.SCALE:
            return _clamp_scale(proposal, context, settings)
        case Kind.CAP:
            return _with(
                proposal, "max_concurrency", max(1, int(proposal.change["max_concurrency"]))
            )


def _clamp_scale(proposal: Proposal, context: Context, settings: ActuatorSettings) -> Proposal:
    name = proposal.target.partition("/")[2]
    fleet = next((f for f in settings.fleets if f.name == name), None)
    seen = context.evidence.fleet(name)
    state = known(seen.state) if seen else None
    if fleet is None or state is None:
        return proposal
    upper = min(
        fleet.max, state.max, state.desired + max(settings.limits.max_scale_up, state.desired)
    )
    lower = max(fleet.min, state.min, state.desired - 1)
    return _with(proposal, "desired", max(lower, min(upper, int(proposal.change["desired"]))))


def _with(proposal: Proposal, name: str, value: Any) -> Proposal:
    if proposal.change[name] == value:
        return proposal
    return replace(proposal, change={**proposal.change, name: value})
