"""A fleet that KEDA scales: we write a number down, KEDA comes and takes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, delete, insert, select

from actuators import queries
from actuators.evidence import FleetState
from actuators.lease import Lease
from actuators.observe import Rows
from actuators.settings import FleetSettings
from actuators.signals import SignalBoard
from actuators.tables import written
from base.db import transaction
from base.errors import Retryable


class KedaFleet:
    """Keeps the wanted number in the control database, so that a restart goes on with it.

    How many replicas run is taken from their heartbeats; a fleet that neither sends any nor was
    ever told a number can't be described.
    """

    def __init__(
        self,
        fleet: FleetSettings,
        engine: Rows,
        db: Engine,
        signals: SignalBoard,
        stale_after: timedelta,
    ) -> None:
        self._fleet = fleet
        self._engine = engine
        self._db = db
        self._signals = signals
        self._stale_after = stale_after

    def enact(self, lease: Lease, change: Mapping[str, Any], now: datetime) -> None:
        with transaction(self._db) as connection:
            connection.execute(delete(written).where(written.c.fleet == self._fleet.name))
            connection.execute(
                insert(written).values(
                    fleet=self._fleet.name,
                    desired=int(change["desired"]),
                    lease_id=lease.id,
                    at=now,
                )
            )

    def in_place(self, lease: Lease, now: datetime) -> bool | None:  # noqa: ARG002
        """Say whether the autoscaler has taken the number; nobody asking is no proof."""
        asked = self._signals.last_asked(self._fleet.name)
        if asked is None:
            return None
        return asked > lease.changed_at

    def read(self, now: datetime) -> FleetState:
        """Describe the fleet from what was written and from what its replicas send."""
        beats = self._engine.rows(queries.HEARTBEATS, {"from": now - self._stale_after, "to": now})
        alive = tuple(b["instance"] for b in beats if self._fleet.model in {None, b["model"]})
        with transaction(self._db) as connection:
            told = connection.scalar(
                select(written.c.desired).where(written.c.fleet == self._fleet.name)
            )
        if told is None and not alive:
            raise Retryable(f"fleet {self._fleet.name}: no replica sends heartbeats")
        desired = told if told is not None else len(alive)
        desired = min(self._fleet.max, max(self._fleet.min, desired))
        return FleetState(
            desired=desired,
            ready=len(alive) if alive else desired,
            pending=max(0, desired - len(alive)) if alive else 0,
            min=self._fleet.min,
            max=self._fleet.max,
            replicas=alive,
            changed_by=None,
        )
