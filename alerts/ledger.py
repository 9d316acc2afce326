"""What each receiver has been told about each group: the notification log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from alerts.decide import Severities, Told
from alerts.outbox import Message, severities
from alerts.tables import told

Key = tuple[str, str]  # receiver, group_key


def load(connection: Connection) -> dict[Key, Told]:
    rows = connection.execute(select(told))
    return {
        (row.receiver, row.group_key): Told(
            firing=severities(row.firing),
            maybe=severities(row.maybe),
            refused=severities(row.refused),
            resolved=tuple(row.resolved),
            at=row.at,
        )
        for row in rows
    }


def read(connection: Connection, key: Key) -> Told:
    return _one(connection, key) or Told()


def write(connection: Connection, key: Key, knowledge: Told) -> None:
    values = {
        "firing": dict(knowledge.firing),
        "maybe": dict(knowledge.maybe),
        "refused": dict(knowledge.refused),
        "resolved": list(knowledge.resolved),
        "at": knowledge.at,
    }
    mine = (told.c.receiver == key[0]) & (told.c.group_key == key[1])
    if connection.execute(update(told).where(mine).values(values)).rowcount == 0:
        connection.execute(insert(told).values(receiver=key[0], group_key=key[1], **values))


def forget_refusals(connection: Connection, receiver: str) -> None:
    """Say refused things again: the receiver's configuration has changed."""
    connection.execute(update(told).where(told.c.receiver == receiver).values(refused={}))


def forget_receivers(connection: Connection, but: Mapping[str, object]) -> None:
    connection.execute(delete(told).where(told.c.receiver.not_in(sorted(but))))


def after_delivery(message: Message, now: datetime) -> Told:
    """Replace the entry: a message lists everything its receiver should know."""
    return Told(firing=message.firing, resolved=message.resolved, at=now)


def after_refusal(before: Told, message: Message, now: datetime) -> Told:
    """Give up on these bytes: what was new counts as refused, what ended counts as told."""
    heard = {**before.maybe, **before.firing}
    still: Severities = {e: heard[e] for e in message.firing if e in heard}
    refused = {e: s for e, s in message.firing.items() if heard.get(e) is not s}
    return Told(firing=still, refused=refused, at=now)


def after_doubt(before: Told, attempted: Severities) -> Told:
    return replace(before, maybe={**before.maybe, **attempted})


def _one(connection: Connection, key: Key) -> Told | None:
    row = connection.execute(
        select(told).where(told.c.receiver == key[0], told.c.group_key == key[1])
    ).first()
    if row is None:
        return None
    return Told(
        firing=severities(row.firing),
        maybe=severities(row.maybe),
        refused=severities(row.refused),
        resolved=tuple(row.resolved),
        at=row.at,
    )
