"""The outbox: notifications written with the decision, claimed by lease, settled once.

queued -> sending -> delivered | queued (retry) | dead | dropped
queued -> superseded (newer news, or nothing left to say)

At most one message per (receiver, group) is queued or being sent (a unique index says so), so
messages of one group cannot overtake each other and a dead receiver holds a bounded queue.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    and_,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from alerts.decide import Reason, Severities
from alerts.model import Severity
from alerts.tables import outbox

LIVE = ("queued", "sending")


@dataclass(frozen=True, slots=True)
class Message:
    """A rendered notification. Once it has it, the receiver knows of `firing` and `resolved`."""

    id: str
    receiver: str
    group_key: str
    reason: Reason
    firing: Severities
    resolved: tuple[str, ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Live:
    """A message that is queued or being sent. `is_held`: a worker has it right now."""

    id: str
    receiver: str
    group_key: str
    reason: Reason
    firing: Severities
    resolved: tuple[str, ...]
    created_at: datetime
    maybe_heard: bool
    is_held: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A message in one worker's hands until `lease` runs out. `attempt` counts from 1."""

    message: Message
    lease: str
    attempt: int
    created_at: datetime
    maybe_heard: bool


def put(connection: Connection, message: Message, now: datetime) -> None:
    """Queue a message, due at once."""
    row = {
        "id": message.id,
        "receiver": message.receiver,
        "group_key": message.group_key,
        "reason": message.reason,
        "firing": dict(message.firing),
        "resolved": list(message.resolved),
        "body": message.body,
        "status": "queued",
        "status_reason": "",
        "created_at": now,
        "due_at": now,
        "attempts": 0,
        "maybe_heard": False,
    }
    connection.execute(insert(outbox).values(row))


def live(
    connection: Connection, now: datetime, *, receiver: str | None = None
) -> dict[tuple[str, str], Live]:
    """Read what is on its way, by (receiver, group), and lock it against claims."""
    columns = [column for column in outbox.c if column.name != "body"]
    query = select(*columns).where(outbox.c.status.in_(LIVE)).with_for_update()
    if receiver is not None:
        query = query.where(outbox.c.receiver == receiver)
    rows = connection.execute(query)
    return {(row.receiver, row.group_key): _live(row, now) for row in rows}


def supersede(connection: Connection, message_id: str, why: str, now: datetime) -> None:
    """Withdraw a message that nobody holds. The caller has it locked (see `live`)."""
    connection.execute(
        update(outbox)
        .where(outbox.c.id == message_id, outbox.c.status.in_(LIVE))
        .values(status="superseded", status_reason=why, settled_at=now, lease=None)
    )


def abandon(connection: Connection, receivers: Collection[str], now: datetime) -> None:
    """Withdraw what waits for receivers that are no longer configured."""
    connection.execute(
        update(outbox)
        .where(outbox.c.status.in_(LIVE), outbox.c.receiver.not_in(receivers))
        .values(status="superseded", status_reason="no such receiver", settled_at=now, lease=None)
    )


def has_due(connection: Connection, receiver: str, now: datetime) -> bool:
    found = connection.execute(select(outbox.c.id).where(_due(receiver, now)).limit(1)).first()
    return found is not None


def claim(
    connection: Connection, receiver: str, now: datetime, lease: str, lease_for: timedelta
) -> Claim | None:
    """Take the oldest due message of a receiver, if any.

    A message whose lease ran out is taken again: its worker died, perhaps after sending.
    """
    oldest = (
        select(outbox.c.id)
        .where(_due(receiver, now))
        .order_by(outbox.c.due_at, outbox.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    row = connection.execute(
        update(outbox)
        .where(outbox.c.id == oldest)
        .values(
            status="sending",
            lease=lease,
            lease_until=now + lease_for,
            attempts=outbox.c.attempts + 1,
            maybe_heard=case((outbox.c.status == "sending", true()), else_=outbox.c.maybe_heard),
        )
        .returning(outbox)
    ).first()
    return _claim(row) if row is not None else None


def finish(
    connection: Connection,
    claim: Claim,
    status: str,
    now: datetime,
    *,
    reason: str,
    code: int | None,
) -> bool:
    """Settle a claimed message for good. False: the lease was lost, somebody else decides."""
    return _settle(
        connection,
        claim,
        status=status,
        status_reason=reason,
        last_status=code,
        settled_at=now,
        lease=None,
    )


def postpone(
    connection: Connection,
    claim: Claim,
    due_at: datetime,
    *,
    reason: str,
    code: int | None,
    maybe_heard: bool,
) -> bool:
    """Give a claimed message back to the queue. False: the lease was lost."""
    return _settle(
        connection,
        claim,
        status="queued",
        status_reason=reason,
        last_status=code,
        due_at=due_at,
        maybe_heard=claim.maybe_heard or maybe_heard,
        lease=None,
        lease_until=None,
    )


def last_created(connection: Connection, receiver: str) -> datetime | None:
    newest: datetime | None = connection.execute(
        select(func.max(outbox.c.created_at)).where(outbox.c.receiver == receiver)
    ).scalar_one()
    return newest


def oldest_due(connection: Connection) -> datetime | None:
    """Say since when the longest waiting message has been queued; None if nothing waits."""
    oldest: datetime | None = connection.execute(
        select(func.min(outbox.c.created_at)).where(outbox.c.status.in_(LIVE))
    ).scalar_one()
    return oldest


def prune(connection: Connection, before: datetime, heartbeats_before: datetime) -> int:
    """Delete settled messages; heartbeats are many and are kept for less."""
    gone = connection.execute(
        delete(outbox).where(
            outbox.c.status.not_in(LIVE),
            or_(
                outbox.c.settled_at < before,
                and_(outbox.c.reason == Reason.HEARTBEAT, outbox.c.settled_at < heartbeats_before),
            ),
        )
    )
    return gone.rowcount


def severities(stored: Mapping[str, str]) -> dict[str, Severity]:
    return {episode: Severity(severity) for episode, severity in stored.items()}


def _due(receiver: str, now: datetime) -> Any:
    return and_(
        outbox.c.receiver == receiver,
        or_(
            and_(outbox.c.status == "queued", outbox.c.due_at <= now),
            and_(outbox.c.status == "sending", outbox.c.lease_until <= now),
        ),
    )


def _settle(connection: Connection, claim: Claim, **values: Any) -> bool:
    done = connection.execute(
        update(outbox)
        .where(
            outbox.c.id == claim.message.id,
            outbox.c.status == "sending",
            outbox.c.lease == claim.lease,
        )
        .values(**values)
    )
    return done.rowcount == 1


def _live(row: Row[Any], now: datetime) -> Live:
    sending = row.status == "sending"
    return Live(
        id=row.id,
        receiver=row.receiver,
        group_key=row.group_key,
        reason=Reason(row.reason),
        firing=severities(row.firing),
        resolved=tuple(row.resolved),
        created_at=row.created_at,
        maybe_heard=row.maybe_heard or sending,
        is_held=sending and row.lease_until > now,
    )


def _claim(row: Row[Any]) -> Claim:
    message = Message(
        id=row.id,
        receiver=row.receiver,
        group_key=row.group_key,
        reason=Reason(row.reason),
        firing=severities(row.firing),
        resolved=tuple(row.resolved),
        body=bytes(row.body),
    )
    return Claim(message, row.lease, row.attempts, row.created_at, row.maybe_heard)
