"""A change that decide() would like to see: not yet allowed, not yet a lease."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from actuators.lease import Expect, Kind, Lease, LeaseState, OnExpiry, lease_key


class Step(StrEnum):
    OPEN = "open"  # a new lease
    RAISE = "raise"  # more of an open one
    EASE = "ease"  # less of an open one
    END = "end"  # take an open one back altogether


@dataclass(frozen=True, slots=True)
class Proposal:
    """A step on a lever. Only OPEN needs the fields below `cause`."""

    step: Step
    target: str
    subject: str
    kind: Kind
    change: Mapping[str, Any]
    reason: str
    cause: str
    expect: Expect | None = None
    revert_to: Mapping[str, Any] = field(default_factory=dict)
    on_expiry: OnExpiry = OnExpiry.REVERT
    numbers: Mapping[str, float] = field(default_factory=dict)
    slo: str = ""
    episode: str | None = None
    lease_id: str | None = None

    @property
    def key(self) -> str:
        return lease_key(self.target, self.subject, self.kind)

    def on_behalf_of(self, slo: str, episode: str | None, lease: Lease | None) -> Proposal:
        """Say which SLO asks; on an open lease the step becomes a raise."""
        if lease is None:
            return replace(self, slo=slo, episode=episode)
        return replace(self, slo=slo, episode=episode, step=Step.RAISE, lease_id=lease.id)

    def exceeds(self, lease: Lease) -> bool:
        """Say whether it asks for clearly more than an open lease already does."""
        if lease.state is LeaseState.FROZEN or lease.pending is not None:
            return False
        match self.kind:
            case Kind.SHED:
                return float(self.change["fraction"]) >= float(lease.change["fraction"]) + 0.1
            case Kind.SCALE:
                growing = int(lease.change["desired"]) >= int(lease.revert_to["desired"])
                return growing and int(self.change["desired"]) > int(lease.change["desired"])
            case Kind.CAP:
                return False
