"""What the folders tell each other through the composition root, in the words of the asker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, Engine

from actuators import register
from actuators.lease import Lease
from alerts import read


def action_notes(connection: Connection, slo: str, group: Mapping[str, str]) -> Sequence[str]:
    """Say what the control loop holds because of an SLO: for the text of its page."""
    del group  # a lease answers for the SLO; its own text names the tenant it concerns
    held = [lease for lease in register.open_leases(connection) if lease.slo == slo]
    return [_sentence(lease) for lease in reversed(held)]


def open_episodes(db: Engine, now: datetime) -> Mapping[str, str]:
    """Name the open episode of each SLO, so that a lease can be joined to its page."""
    return {alert.slo: alert.id for alert in read.active(db, now) if alert.slo}


def _sentence(lease: Lease) -> str:
    dry = "would have " if lease.dry_run else ""
    return f"{dry}{lease.kind} {lease.target} {lease.subject}".strip() + (
        f" since {lease.created_at:%H:%M:%S} ({lease.state}): {lease.reason}"
    )
