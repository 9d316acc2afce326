"""The audit chain: one row per step, each sealed with the hash of the one before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from actuators.tables import audit
from base.durations import format_instant

_GENESIS = "0" * 64


def append(
    connection: Connection,
    *,
    at: datetime,
    lever: str,
    step: str,
    actor: str,
    detail: Mapping[str, Any],
    lease_id: str | None = None,
) -> None:
    """Add a row to the end of the chain, in the caller's transaction."""
    previous = connection.scalar(select(audit.c.hash).order_by(audit.c.seq.desc()).limit(1))
    text = json.dumps(detail, sort_keys=True, separators=(",", ":"), default=str)
    row = {
        "at": format_instant(at),
        "lease_id": lease_id,
        "lever": lever,
        "step": step,
        "actor": actor,
        "detail": text,
        "previous": previous or _GENESIS,
    }
    connection.execute(insert(audit).values(**{**row, "at": at}, hash=_seal(row)))


def first_break(connection: Connection) -> int | None:
    """Return the sequence number of the first row that was altered or follows a lost one.

    None means that the chain is whole. Rows cut off at its end leave no trace inside the chain;
    keep the newest hash elsewhere to notice that.
    """
    previous = _GENESIS
    for row in connection.execute(select(audit).order_by(audit.c.seq)):
        sealed = {
            "at": format_instant(row.at),
            "lease_id": row.lease_id,
            "lever": row.lever,
            "step": row.step,
            "actor": row.actor,
            "detail": row.detail,
            "previous": row.previous,
        }
        if row.previous != previous or row.hash != _seal(sealed):
            return int(row.seq)
        previous = row.hash
    return None


def _seal(row: Mapping[str, Any]) -> str:
    text = json.dumps(row, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
