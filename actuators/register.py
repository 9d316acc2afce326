"""The lease register: reads and writes leases in the control database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from actuators.lease import Lease, LeaseState
from actuators.lease_json import from_json, to_json
from actuators.tables import audit, leases

# Steps after which a lever counts as changed, for cooldown, rate and patience.
_CHANGES = ("proposed", "raised", "would_proposed", "would_raised")


def add(connection: Connection, lease: Lease) -> None:
    """Insert a new lease. The database refuses a second open one on the same lever."""
    connection.execute(insert(leases).values(id=lease.id, **_columns(lease)))


def save(connection: Connection, lease: Lease) -> None:
    """Overwrite a lease."""
    connection.execute(update(leases).where(leases.c.id == lease.id).values(**_columns(lease)))


def find(connection: Connection, lease_id: str) -> Lease | None:
    """Read one lease."""
    document = connection.scalar(select(leases.c.document).where(leases.c.id == lease_id))
    return None if document is None else from_json(document)


def open_leases(connection: Connection) -> tuple[Lease, ...]:
    """Read the open ones, the oldest first."""
    rows = connection.scalars(
        select(leases.c.document)
        .where(leases.c.closed_at.is_(None))
        .order_by(leases.c.created_at, leases.c.id)
    )
    return tuple(from_json(row) for row in rows)


def newest(connection: Connection, limit: int, *, since: datetime | None = None) -> Sequence[Lease]:
    """Read the newest leases, open ones first."""
    wanted = select(leases.c.document)
    if since is not None:
        wanted = wanted.where((leases.c.closed_at.is_(None)) | (leases.c.created_at >= since))
    rows = connection.scalars(
        wanted.order_by(
            leases.c.closed_at.is_not(None), leases.c.created_at.desc(), leases.c.id.desc()
        ).limit(limit)
    )
    return tuple(from_json(row) for row in rows)


def cold_levers(connection: Connection, since: datetime) -> frozenset[str]:
    """Return the levers (`lease key|cause`) that failed since then."""
    rows = connection.scalars(
        select(leases.c.document).where(
            leases.c.state == str(LeaseState.FAILED), leases.c.closed_at >= since
        )
    )
    failed = (from_json(row) for row in rows)
    return frozenset(f"{lease.key}|{lease.cause}" for lease in failed)


def recent_changes(connection: Connection, since: datetime) -> Mapping[str, tuple[datetime, ...]]:
    """Return when each lever was opened or raised since then."""
    rows = connection.execute(
        select(audit.c.lever, audit.c.at)
        .where(audit.c.at > since, audit.c.step.in_(_CHANGES))
        .order_by(audit.c.seq)
    )
    out: dict[str, list[datetime]] = defaultdict(list)
    for lever, at in rows:
        out[lever].append(at)
    return {lever: tuple(times) for lever, times in out.items()}


def _columns(lease: Lease) -> dict[str, object]:
    return {
        "open_key": lease.key if lease.is_open else None,
        "target": lease.target,
        "state": str(lease.state),
        "cause": lease.cause,
        "dry_run": lease.dry_run,
        "created_at": lease.created_at,
        "expires_at": lease.expires_at,
        "closed_at": lease.closed_at,
        "document": to_json(lease),
    }
