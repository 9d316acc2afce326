"""What each receiver has been told about each group: the notification log."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from alerts.decide import Told
from alerts.outbox import Message, severities
from alerts.tables import told

Key = tuple[str, str]  # receiver, group_key


def load(connection: Connection) -> dict[Key, Told]:
    rows = connection.execute(select(told))
    return {(row.receiver, row.group_key): _told(row) for row in rows}


def read(connection: Connection, key: Key) -> Told:
    row = connection.execute(
        select(told).where(told.c.receiver == key[0], told.c.group_key == key[1])
    ).first()
    return Told() if row is None else _told(row)


def write(connection: Connection, key: Key, knowledge: Told) -> None:
    values = {
        "firing": dict(knowledge.firing),
        "maybe": dict(knowledge.maybe),
        "refused": dict(knowledge.refused),
        "refused_ends": list(knowledge.refused_ends),
        "resolved": list(knowledge.resolved),
        "at": knowledge.at,
    }
    mine = (told.c.receiver == key[0]) & (told.c.group_key == key[1])
    if connection.execute(update(told).where(mine).values(values)).rowcount == 0:
        connection.execute(insert(told).values(receiver=key[0], group_key=key[1], **values))


def forget_refusals(connection: Connection, receiver: str) -> None:
    """Say refused things again: the receiver's configuration has changed."""
    connection.execute(
        update(told).where(told.c.receiver == receiver).values(refused={}, refused_ends=[])
    )


def after_delivery(message: Message, now: datetime) -> Told:
    """Replace the entry: a message lists everything its receiver should know."""
    return Told(firing=message.firing, resolved=message.resolved, at=now)


def after_refusal(before: Told, message: Message, now: datetime) -> Told:
    """Give up on these bytes for now: what the receiver knew, it still knows."""
    heard = {**before.maybe, **before.firing}
    return replace(
        before,
        refused={e: s for e, s in message.firing.items() if heard.get(e) is not s},
        refused_ends=message.resolved,
        at=now,
    )


def after_giving_up(before: Told, message: Message, now: datetime) -> Told:
    """Give up on these ends for good, as if they had been told."""
    ended = set(message.resolved)
    return replace(
        before,
        firing={e: s for e, s in before.firing.items() if e not in ended},
        maybe={e: s for e, s in before.maybe.items() if e not in ended},
        at=now,
    )


def _told(row: Row[Any]) -> Told:
    return Told(
        firing=severities(row.firing),
        maybe=severities(row.maybe),
        refused=severities(row.refused),
        refused_ends=tuple(row.refused_ends),
        resolved=tuple(row.resolved),
        at=row.at,
    )
