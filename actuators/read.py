"""What dashboards and the API show of leases. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, select

from actuators import register
from actuators.lease import Lease
from actuators.lease_json import to_json
from actuators.overrules import Hold, KillSwitch, active_holds, read_kill_switch
from actuators.tables import audit
from base.db import transaction


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One link of the audit chain."""

    seq: int
    at: datetime
    lease_id: str | None
    lever: str
    step: str
    actor: str
    detail: str
    hash: str


def actions(db: Engine, *, limit: int = 100, since: datetime | None = None) -> Sequence[Lease]:
    """Return leases, open ones first, then the newest; `since` leaves older closed ones out."""
    with transaction(db) as connection:
        return register.newest(connection, limit, since=since)


def overrules(db: Engine, now: datetime) -> tuple[KillSwitch, Sequence[Hold]]:
    """Return the kill switch and the holds in force."""
    with transaction(db) as connection:
        return read_kill_switch(connection), active_holds(connection, now)


def trail(db: Engine, lease_id: str) -> Sequence[AuditRow]:
    """Return a lease's audit rows in order."""
    with transaction(db) as connection:
        rows = connection.execute(
            select(audit).where(audit.c.lease_id == lease_id).order_by(audit.c.seq)
        )
        return tuple(
            AuditRow(r.seq, r.at, r.lease_id, r.lever, r.step, r.actor, r.detail, r.hash)
            for r in rows
        )


def action_json(lease: Lease) -> dict[str, Any]:
    """Write a lease as the API shows it: the stored form, and the questions people ask of it."""
    document = to_json(lease)
    expect = document["expect"]
    timeline = document.pop("history")
    return {
        **document,
        "timeline": timeline,
        "open": lease.is_open,
        "measured": {
            "metric": expect["metric"],
            "before": expect["before"],
            "after": lease.after,
        },
    }
