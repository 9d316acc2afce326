"""Acknowledgements: somebody has it. Ends repeats, not the alert; gone with the episode."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from alerts.tables import acks


@dataclass(frozen=True, slots=True)
class Ack:
    """`until` None lasts as long as the episode."""

    episode: str
    by: str
    note: str
    at: datetime
    until: datetime | None

    def holds(self, now: datetime) -> bool:
        return self.until is None or now < self.until


def write(connection: Connection, ack: Ack) -> None:
    """Acknowledge an episode; a newer acknowledgement replaces the older."""
    remove(connection, ack.episode)
    connection.execute(
        insert(acks).values(
            episode=ack.episode, by=ack.by, note=ack.note, at=ack.at, until=ack.until
        )
    )


def remove(connection: Connection, episode: str) -> bool:
    return connection.execute(delete(acks).where(acks.c.episode == episode)).rowcount > 0


def holding(connection: Connection, now: datetime) -> dict[str, Ack]:
    """Read the acknowledgements that hold, by episode."""
    rows = connection.execute(select(acks))
    found = (Ack(row.episode, row.by, row.note, row.at, row.until) for row in rows)
    return {ack.episode: ack for ack in found if ack.holds(now)}
