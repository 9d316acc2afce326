"""Exclusions in the control database: proposed, approved by somebody else, taken back.

Nothing is ever deleted or changed otherwise: the rows are the record of who said what when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Row, insert, select, update

from base.db import transaction
from base.errors import BadInput
from slo.exclusion import Exclusion, check, occurrences
from slo.tables import exclusions

_A_YEAR = timedelta(days=400)


def propose(connection: Connection, exclusion: Exclusion) -> None:
    """Write an exclusion down; it has no effect before it is approved."""
    check(exclusion)
    occurrences(exclusion, exclusion.starts_at, exclusion.starts_at + _A_YEAR)  # not too many
    connection.execute(
        insert(exclusions).values(
            **asdict(exclusion) | {"slos": list(exclusion.slos), "match": dict(exclusion.match)}
        )
    )


def approve(connection: Connection, proposal: Exclusion, by: str, now: datetime) -> Exclusion:
    """Put a proposal in force. BadInput where it is none, or `by` proposed it."""
    if proposal.state != "proposed":
        raise BadInput(f"exclusion {proposal.id} is {proposal.state} already")
    if by.strip().casefold() == proposal.created_by.strip().casefold():
        raise BadInput(f"{by} proposed this exclusion: somebody else must approve it")
    return _change(connection, proposal, approved_by=by, approved_at=now)


def revert(connection: Connection, exclusion: Exclusion, by: str, now: datetime) -> Exclusion:
    """Take an exclusion back: every budget is as if it had never been."""
    if exclusion.state == "reverted":
        raise BadInput(f"exclusion {exclusion.id} is reverted already")
    return _change(connection, exclusion, reverted_by=by, reverted_at=now)


def find(connection: Connection, exclusion_id: str) -> Exclusion | None:
    row = connection.execute(select(exclusions).where(exclusions.c.id == exclusion_id)).first()
    return _exclusion(row) if row is not None else None


def every(connection: Connection) -> list[Exclusion]:
    """List all of them, the newest first."""
    rows = connection.execute(select(exclusions).order_by(exclusions.c.created_at.desc()))
    return [_exclusion(row) for row in rows]


class ExclusionsInForce:
    """Reads the approved exclusions: what an evaluator asks."""

    def __init__(self, db: Engine) -> None:
        self._db = db

    def __call__(self) -> Sequence[Exclusion]:
        with transaction(self._db) as connection:
            rows = connection.execute(
                select(exclusions).where(
                    exclusions.c.approved_at.is_not(None), exclusions.c.reverted_at.is_(None)
                )
            )
            return [_exclusion(row) for row in rows]


def _change(connection: Connection, exclusion: Exclusion, **values: Any) -> Exclusion:
    connection.execute(update(exclusions).where(exclusions.c.id == exclusion.id).values(**values))
    return replace(exclusion, **values)


def _exclusion(row: Row[Any]) -> Exclusion:
    values = row._asdict()
    return Exclusion(**values | {"slos": tuple(values["slos"])})
