"""What should be changed? A pure function of one snapshot, so a decision can be replayed.

Burning: act on the most likely cause that still has a lever, cheapest harm first.
Calm for long enough: undo one step, traffic before capacity, the newest change first.
Anything else, lost evidence above all: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from actuators.diagnose import Cause
from actuators.evidence import Evidence
from actuators.lease import Lease
from actuators.proposal import Proposal
from actuators.rungs import rungs_for
from actuators.settings import ActuatorSettings
from actuators.trust import Trust
from actuators.undo import undo
from slo.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision may depend on.

    `recent` holds the times of the last hour's changes by lease key, `cold` the levers
    (`lease key|cause key`) that were tried and did not help.
    """

    evidence: Evidence
    trust: Trust
    causes: tuple[Cause, ...]
    hot: tuple[Verdict, ...]
    leases: tuple[Lease, ...]
    now: datetime
    calm_since: datetime | None = None
    cold: frozenset[str] = frozenset()
    recent: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    episodes: Mapping[str, str] = field(default_factory=dict)


def decide(snapshot: Snapshot, settings: ActuatorSettings) -> tuple[Proposal, ...]:
    """Propose changes, in the order they should be made."""
    if not snapshot.trust.ok:
        return ()
    if snapshot.hot:
        return _act(snapshot, settings)
    if snapshot.calm_since is None or snapshot.now - snapshot.calm_since < settings.calm_for:
        return ()
    return undo(
        snapshot.evidence,
        snapshot.leases,
        snapshot.recent,
        snapshot.cold,
        calm=snapshot.now - snapshot.calm_since,
        settings=settings,
        now=snapshot.now,
    )


def _act(snapshot: Snapshot, settings: ActuatorSettings) -> tuple[Proposal, ...]:
    """Take the first cause that has a warm lever; a cause being treated stops the search."""
    slo = snapshot.hot[0].slo
    for cause in snapshot.causes:
        rungs = rungs_for(cause, snapshot.evidence, snapshot.leases, settings)
        warm = [r for r in rungs if f"{r.key}|{cause.key}" not in snapshot.cold]
        # Of the gateway's levers only the first warm one: the next rung waits for its verdict.
        chosen: list[Proposal] = []
        for rung in warm:
            if not any(c.target == rung.target for c in chosen):
                chosen.append(rung)
        if not chosen:
            continue
        open_keys = {lease.key: lease for lease in snapshot.leases}
        return tuple(
            p.on_behalf_of(slo, snapshot.episodes.get(slo), open_keys.get(p.key))
            for p in chosen
            if _is_new(p, open_keys.get(p.key))
        )
    return ()


def _is_new(proposal: Proposal, lease: Lease | None) -> bool:
    return lease is None or proposal.exceeds(lease)


def hour_before(now: datetime) -> datetime:
    """Return how far back `Snapshot.recent` reaches."""
    return now - timedelta(hours=1)
