"""A target that takes everything and moves nothing: for trials, and for fleets others scale."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from actuators.evidence import FleetState
from actuators.lease import Lease
from actuators.settings import FleetSettings


class NoopFleet:
    """Remembers what it was told and calls it done."""

    def __init__(self, fleet: FleetSettings) -> None:
        self._fleet = fleet
        self._desired = fleet.min
        self._lease_id: str | None = None

    def enact(self, lease: Lease, change: Mapping[str, Any], now: datetime) -> None:  # noqa: ARG002
        self._desired = int(change["desired"])
        self._lease_id = lease.id

    def in_place(self, lease: Lease, now: datetime) -> bool | None:  # noqa: ARG002
        return self._desired == int(lease.change["desired"])

    def read(self, now: datetime) -> FleetState:  # noqa: ARG002
        """Answer as a fleet that has what it was told."""
        return FleetState(
            desired=self._desired,
            ready=self._desired,
            pending=0,
            min=self._fleet.min,
            max=self._fleet.max,
            changed_by="tokenweir" if self._lease_id else None,
            changed_lease=self._lease_id,
        )
