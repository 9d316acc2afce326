r"""A lease: one change to one target, for a limited time, with an expected effect and a way back.

proposed -> applied -> verified -> reverted        undone when calm
                    \-> failed                     did not help: taken back, lever cold
                    \-> expired                    nobody extended it: declared safe state
                    \-> frozen -> (as before)      evidence lost: neither extended nor verified
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal


class Kind(StrEnum):
    """The levers there are."""

    SHED = "shed"  # refuse a fraction of what matches
    CAP = "cap"  # limit how much of what matches runs at once
    SCALE = "scale"  # change the number of replicas


class LeaseState(StrEnum):
    PROPOSED = "proposed"
    APPLIED = "applied"
    VERIFIED = "verified"
    FAILED = "failed"
    REVERTED = "reverted"
    EXPIRED = "expired"
    FROZEN = "frozen"


class OnExpiry(StrEnum):
    """The declared safe state: rules end by themselves, replicas stay as they are.

    Losing the evidence, or this program, must never take capacity away.
    """

    REVERT = "revert"
    KEEP = "keep"


Pending = Literal["apply", "revert"]


@dataclass(frozen=True, slots=True)
class Expect:
    """The effect that proves a change: `metric` goes down by the part `by` within `within`.

    `hold` expects it not to rise above `enough` instead (for giving capacity back). A metric
    at or below `enough` is good whatever it was before.
    """

    metric: str
    direction: Literal["down", "hold"]
    by: float
    within: timedelta
    before: float | None
    enough: float


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """One line of a lease's timeline."""

    at: datetime
    step: str
    note: str
    actor: str = "tokenweir"


@dataclass(frozen=True, slots=True)
class Lease:
    """`pending` is what the world has been told to do and has not confirmed.

    It is written before the world is touched, so that a restart knows what to finish;
    `close_as` is the state the lease gets once a pending revert is done.
    """

    id: str
    target: str  # gateway/<name> or fleet/<name>
    subject: str  # tenant=acme, priority=batch or "" for the whole target
    kind: Kind
    change: Mapping[str, Any]
    revert_to: Mapping[str, Any]
    reason: str
    cause: str
    evidence: Mapping[str, Any]
    expect: Expect
    on_expiry: OnExpiry
    slo: str
    episode: str | None
    created_at: datetime
    expires_at: datetime
    verify_by: datetime
    state: LeaseState
    changed_at: datetime  # last time the world was changed by it
    pending: Pending | None = None
    close_as: LeaseState | None = None
    frozen_from: LeaseState | None = None
    frozen_at: datetime | None = None
    closed_at: datetime | None = None
    after: float | None = None  # the expected metric, as last measured
    dry_run: bool = False
    history: tuple[HistoryStep, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.closed_at is None

    @property
    def key(self) -> str:
        """Name what it moves: at most one open lease may have this key."""
        return lease_key(self.target, self.subject, self.kind)

    @property
    def in_flight(self) -> bool:
        """Say whether its effect is still to be seen."""
        return self.is_open and LeaseState.VERIFIED not in {self.state, self.frozen_from}

    def noted(self, at: datetime, step: str, note: str, actor: str = "tokenweir") -> Lease:
        """Add a line to the timeline; a dry run's steps are `would_` steps."""
        name = f"would_{step}" if self.dry_run else step
        return replace(self, history=(*self.history, HistoryStep(at, name, note, actor)))


def lease_key(target: str, subject: str, kind: Kind) -> str:
    """Name a lever on a subject of a target."""
    return f"{target}|{subject}|{kind}"


def freeze(lease: Lease, now: datetime) -> Lease:
    """Stop judging and extending; expiry goes on."""
    if lease.state is LeaseState.FROZEN:
        return lease
    return replace(lease, state=LeaseState.FROZEN, frozen_from=lease.state, frozen_at=now)


def thaw(lease: Lease, now: datetime) -> Lease:
    """Go on where it stopped: the time without evidence does not count against the effect."""
    if lease.state is not LeaseState.FROZEN:
        return lease
    blind = now - (lease.frozen_at or now)
    return replace(
        lease,
        state=lease.frozen_from or LeaseState.APPLIED,
        frozen_from=None,
        frozen_at=None,
        verify_by=lease.verify_by + blind,
    )
