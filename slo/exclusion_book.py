"""Exclusions in the control database: proposed, approved by somebody else, taken back.

Nothing is ever deleted or changed otherwise: the rows are the record of who said what when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Row, insert, select, update

from base.db import transaction
from base.errors import BadInput
from slo.exclusion import Exclusion, check, occurrences
from slo.tables import exclusions

_A_YEAR = timedelta(days=400)


class UnknownExclusionError(BadInput):
    """No exclusion has that id."""


def propose(connection: Connection, exclusion: Exclusion) -> None:
    """Write an exclusion down; it has no effect before it is approved."""
    check(exclusion)
    occurrences(exclusion, exclusion.starts_at, exclusion.starts_at + _A_YEAR)  # not too many
    connection.execute(
        insert(exclusions).values(
            **asdict(exclusion) | {"slos": list(exclusion.slos), "match": dict(exclusion.match)}
        )
    )


def approve(connection: Connection, exclusion_id: str, by: str, now: datetime) -> Exclusion:
    """Put a proposal in force. BadInput where it is none, or `by` proposed it."""
    found = find(connection, exclusion_id)
    if found.state != "proposed":
        raise BadInput(f"exclusion {exclusion_id} is {found.state} already")
    if by.strip().casefold() == found.created_by.strip().casefold():
        raise BadInput(f"{by} proposed this exclusion: somebody else must approve it")
    connection.execute(
        update(exclusions)
        .where(exclusions.c.id == exclusion_id, exclusions.c.approved_at.is_(None))
        .values(approved_by=by, approved_at=now)
    )
    return find(connection, exclusion_id)


def revert(connection: Connection, exclusion_id: str, by: str, now: datetime) -> Exclusion:
    """Take an exclusion back: every budget is as if it had never been."""
    found = find(connection, exclusion_id)
    if found.state == "reverted":
        raise BadInput(f"exclusion {exclusion_id} is reverted already")
    connection.execute(
        update(exclusions)
        .where(exclusions.c.id == exclusion_id)
        .values(reverted_by=by, reverted_at=now)
    )
    return find(connection, exclusion_id)


def find(connection: Connection, exclusion_id: str) -> Exclusion:
    """Read one. UnknownExclusionError where there is none."""
    row = connection.execute(select(exclusions).where(exclusions.c.id == exclusion_id)).first()
    if row is None:
        raise UnknownExclusionError(f"there is no exclusion {exclusion_id!r}")
    return _exclusion(row)


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


def _exclusion(row: Row[Any]) -> Exclusion:
    values = row._asdict()
    return Exclusion(**values | {"slos": tuple(values["slos"])})
