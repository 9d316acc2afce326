"""Looking after one open lease: crash leftovers, expiry, lost evidence, proof, extension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from actuators.enact import Enactor
from actuators.evidence import Evidence, known
from actuators.lease import Kind, Lease, LeaseState, OnExpiry, freeze, thaw
from actuators.settings import ActuatorSettings
from actuators.trust import Trust
from actuators.verify import Outcome, judge
from slo.verdict import Verdict

_ACTIVE = (LeaseState.APPLIED, LeaseState.VERIFIED)


def settle(lease: Lease, enactor: Enactor, now: datetime) -> Lease:
    """Finish what was begun, adopt or abandon what a crash left proposed, expire what is due.

    Expiry needs no evidence: a lease ends in its declared safe state whatever is known.
    """
    if lease.state is LeaseState.PROPOSED and lease.pending == "apply":
        lease = _after_crash(lease, enactor, now)
    elif lease.pending is not None:
        lease = enactor.finish(lease, now)
    if lease.is_open and lease.pending != "revert" and now >= lease.expires_at:
        if lease.on_expiry is OnExpiry.KEEP:
            return enactor.leave(lease, LeaseState.EXPIRED, "ran out; replicas stay as is", now)
        return enactor.take_back(lease, LeaseState.EXPIRED, "ran out; nobody extended it", now)
    return lease


def _after_crash(lease: Lease, enactor: Enactor, now: datetime) -> Lease:
    """Adopt or abandon: a lease still proposed at the start of a tick was cut off by a crash."""
    in_place = enactor.in_place(lease, now)
    if in_place:
        adopted = replace(lease, state=LeaseState.APPLIED, pending=None)
        return enactor.record(adopted, now, "applied", "found in place after a restart")
    if in_place is False and lease.on_expiry is OnExpiry.KEEP:
        return enactor.leave(lease, LeaseState.REVERTED, "a restart found it never applied", now)
    return enactor.take_back(lease, LeaseState.REVERTED, "interrupted by a restart", now)


def tend(
    lease: Lease,
    evidence: Evidence,
    trust: Trust,
    hot: Sequence[Verdict],
    enactor: Enactor,
    settings: ActuatorSettings,
    now: datetime,
    *,
    held: bool,
) -> Lease:
    """Freeze or thaw, then judge, then extend. A held lease only runs out."""
    why = _why_blind(lease, evidence, trust)
    if why is not None:
        if lease.state not in _ACTIVE:
            return lease
        return enactor.record(freeze(lease, now), now, "frozen", why)
    if lease.state is LeaseState.FROZEN:
        lease = enactor.record(thaw(lease, now), now, "thawed", "evidence is back")
    if held or lease.pending is not None or lease.state not in _ACTIVE:
        return lease
    if lease.state is LeaseState.APPLIED:
        lease = _verify(lease, evidence, hot, enactor, settings, now)
    return _extend(lease, enactor, settings, now)


def overridden_by(lease: Lease, evidence: Evidence) -> str | None:
    """Return who changed a fleet behind the lease's back.

    Compared with what is observed, not with what was written: a fleet that differs from its lease
    was moved by somebody who knows better.
    """
    if lease.kind is not Kind.SCALE or lease.dry_run or lease.pending or not lease.is_open:
        return None
    fleet = evidence.fleet(lease.target.partition("/")[2])
    state = known(fleet.state) if fleet else None
    if state is None or state.desired == int(lease.change["desired"]):
        return None
    return state.changed_by if state.changed_by not in {None, "tokenweir"} else "somebody"


def _why_blind(lease: Lease, evidence: Evidence, trust: Trust) -> str | None:
    if not trust.ok:
        return "; ".join(trust.reasons)
    if lease.kind is Kind.SCALE:
        fleet = evidence.fleet(lease.target.partition("/")[2])
        if fleet is None or known(fleet.state) is None:
            return f"{lease.target} does not answer"
    return None


def _verify(
    lease: Lease,
    evidence: Evidence,
    hot: Sequence[Verdict],
    enactor: Enactor,
    settings: ActuatorSettings,
    now: datetime,
) -> Lease:
    finding = judge(
        lease,
        evidence,
        hot,
        in_place=enactor.in_place(lease, now),
        thresholds=settings.thresholds,
        now=now,
    )
    seen = replace(lease, after=finding.measured)
    match finding.outcome:
        case Outcome.MET if lease.expect.direction == "hold":
            return enactor.leave(seen, LeaseState.VERIFIED, finding.note, now)
        case Outcome.MET:
            proven = replace(seen, state=LeaseState.VERIFIED)
            return enactor.record(proven, now, "verified", finding.note)
        case Outcome.NOT_MET:
            return enactor.take_back(seen, LeaseState.FAILED, f"no effect: {finding.note}", now)
        case Outcome.NOT_ENOUGH:
            more = replace(seen, verify_by=now + lease.expect.within)
            return enactor.record(more, now, "not_enough", finding.note)
        case Outcome.WAIT | Outcome.NO_DATA:
            return lease


def _extend(lease: Lease, enactor: Enactor, settings: ActuatorSettings, now: datetime) -> Lease:
    """Extend what is proven, or still within its time to prove itself. The rest runs out."""
    proven = lease.state is LeaseState.VERIFIED or now < lease.verify_by
    if not lease.is_open or lease.pending is not None or not proven:
        return lease
    if lease.expires_at - now > settings.lease_ttl / 2:
        return lease
    return enactor.extend(lease, now)
