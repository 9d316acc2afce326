"""Silences: who may not be told about what, and until when.

Judged when a notification is decided and again when it is sent; never part of an alert's state,
so a silenced alert still resolves wherever it was announced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, insert, select, update

from alerts.matchers import Matcher, all_match
from alerts.tables import silences
from base.errors import BadInput


@dataclass(frozen=True, slots=True)
class Silence:
    id: str
    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime
    created_by: str
    comment: str
    updated_at: datetime

    def state(self, now: datetime) -> Literal["pending", "active", "expired"]:
        if now >= self.ends_at:
            return "expired"
        return "pending" if now < self.starts_at else "active"

    def covers(self, labels: Mapping[str, str], now: datetime) -> bool:
        return self.state(now) == "active" and all_match(self.matchers, labels)


def add(connection: Connection, silence: Silence, now: datetime) -> None:
    """Write a new silence."""
    _check(silence, now)
    connection.execute(insert(silences).values(id=silence.id, **_values(silence)))


def change(connection: Connection, silence: Silence, now: datetime) -> bool:
    """Replace a silence that has not expired. False: there is none of that id."""
    _check(silence, now)
    done = connection.execute(
        update(silences)
        .where(silences.c.id == silence.id, silences.c.ends_at > now)
        .values(_values(silence))
    )
    return done.rowcount == 1


def expire(connection: Connection, silence_id: str, now: datetime) -> bool:
    """End a silence now. False: there is none, or it has ended."""
    done = connection.execute(
        update(silences)
        .where(silences.c.id == silence_id, silences.c.ends_at > now)
        .values(ends_at=now, updated_at=now)
    )
    return done.rowcount == 1


def find(connection: Connection, silence_id: str) -> Silence | None:
    row = connection.execute(select(silences).where(silences.c.id == silence_id)).first()
    return _silence(row) if row is not None else None


def all_silences(connection: Connection) -> list[Silence]:
    """List silences, the one that ends last first."""
    rows = connection.execute(select(silences).order_by(silences.c.ends_at.desc()))
    return [_silence(row) for row in rows]


def active(connection: Connection, now: datetime) -> list[Silence]:
    rows = connection.execute(
        select(silences).where(silences.c.starts_at <= now, silences.c.ends_at > now)
    )
    return [_silence(row) for row in rows]


def covering(candidates: Sequence[Silence], labels: Mapping[str, str], now: datetime) -> list[str]:
    """Name the silences that cover these labels."""
    return [silence.id for silence in candidates if silence.covers(labels, now)]


def _check(silence: Silence, now: datetime) -> None:
    if not silence.matchers:
        raise BadInput("a silence needs at least one matcher")
    if all(matcher.matches({}) for matcher in silence.matchers):
        raise BadInput("a silence needs a matcher that does not match the empty value")
    if silence.ends_at <= silence.starts_at:
        raise BadInput("a silence must end after it starts")
    if silence.ends_at <= now:
        raise BadInput("a silence must end in the future")


def _values(silence: Silence) -> dict[str, Any]:
    return {
        "matchers": [
            {"name": m.name, "value": m.value, "isRegex": m.is_regex, "isEqual": m.is_equal}
            for m in silence.matchers
        ],
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "created_by": silence.created_by,
        "comment": silence.comment,
        "updated_at": silence.updated_at,
    }


def _silence(row: Row[Any]) -> Silence:
    return Silence(
        id=row.id,
        matchers=tuple(
            Matcher(m["name"], m["value"], m["isRegex"], m["isEqual"]) for m in row.matchers
        ),
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        created_by=row.created_by,
        comment=row.comment,
        updated_at=row.updated_at,
    )
