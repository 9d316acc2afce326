"""The health of each receiver: its circuit, what it asked us to wait, whether it is disabled.

In the database, so that every worker and every restart sees the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Row, delete, insert, or_, select, update

from alerts import ledger
from alerts.receivers import Receiver
from alerts.tables import endpoints

TRIPS_AT = 5  # failures in a row
PROBE_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`broken_since` is set by a permanent failure or an open circuit and cleared by a delivery."""

    receiver: str
    failures: int
    not_before: datetime | None
    broken_since: datetime | None
    broken_reason: str
    is_disabled: bool
    delivered_at: datetime | None


def register(connection: Connection, receivers: Sequence[Receiver]) -> None:
    """Make a row for each receiver; a changed configuration starts with a clean one."""
    known = {row.receiver: row.config for row in connection.execute(select(endpoints))}
    names = [receiver.name for receiver in receivers]
    connection.execute(delete(endpoints).where(endpoints.c.receiver.not_in(names)))
    for receiver in receivers:
        if known.get(receiver.name) == receiver.config:
            continue
        connection.execute(delete(endpoints).where(endpoints.c.receiver == receiver.name))
        connection.execute(
            insert(endpoints).values(
                receiver=receiver.name,
                config=receiver.config,
                failures=0,
                broken_reason="",
                disabled=False,
            )
        )
        ledger.forget_refusals(connection, receiver.name)


def load(connection: Connection) -> dict[str, Endpoint]:
    return {row.receiver: _endpoint(row) for row in connection.execute(select(endpoints))}


def may_send(connection: Connection, receiver: str, now: datetime) -> bool:
    """Pass the gate: not disabled, not asked to wait; with an open circuit one probe a minute."""
    row = connection.execute(select(endpoints).where(endpoints.c.receiver == receiver)).first()
    if row is None:
        return True
    state = _endpoint(row)
    if state.is_disabled or (state.not_before is not None and state.not_before > now):
        return False
    if state.failures < TRIPS_AT:
        return True
    probe = (
        update(endpoints)
        .where(
            endpoints.c.receiver == receiver,
            or_(endpoints.c.not_before.is_(None), endpoints.c.not_before <= now),
        )
        .values(not_before=now + PROBE_EVERY)
    )
    return connection.execute(probe).rowcount == 1


def delivered(connection: Connection, receiver: str, now: datetime) -> None:
    _set(
        connection,
        receiver,
        failures=0,
        not_before=None,
        broken_since=None,
        broken_reason="",
        delivered_at=now,
    )


def failed(
    connection: Connection, receiver: str, now: datetime, reason: str, after: timedelta | None
) -> None:
    """Count a failure that may pass; `after` is how long the receiver asked to be left alone."""
    row = connection.execute(select(endpoints).where(endpoints.c.receiver == receiver)).first()
    if row is None:
        return
    failures = row.failures + 1
    values: dict[str, object] = {"failures": failures}
    if after is not None:
        values["not_before"] = now + after
    if failures >= TRIPS_AT:
        values["not_before"] = now + max(PROBE_EVERY, after or timedelta(0))
        values["broken_since"] = row.broken_since or now
        values["broken_reason"] = f"{failures} attempts in a row failed, last with: {reason}"
    _set(connection, receiver, **values)


def broke(
    connection: Connection, receiver: str, now: datetime, reason: str, *, disable: bool
) -> None:
    """Note a failure that will not pass by itself."""
    row = connection.execute(select(endpoints).where(endpoints.c.receiver == receiver)).first()
    since = row.broken_since if row is not None and row.broken_since is not None else now
    values: dict[str, object] = {"broken_since": since, "broken_reason": reason}
    if disable:
        values["disabled"] = True
    _set(connection, receiver, **values)


def enable(connection: Connection, receiver: str) -> bool:
    """Start afresh with a receiver. False: there is none of that name."""
    ledger.forget_refusals(connection, receiver)
    return _set(
        connection,
        receiver,
        failures=0,
        not_before=None,
        broken_since=None,
        broken_reason="",
        disabled=False,
    )


def _set(connection: Connection, receiver: str, **values: object) -> bool:
    done = connection.execute(
        update(endpoints).where(endpoints.c.receiver == receiver).values(**values)
    )
    return done.rowcount == 1


def _endpoint(row: Row[tuple[object, ...]]) -> Endpoint:
    return Endpoint(
        receiver=row.receiver,
        failures=row.failures,
        not_before=row.not_before,
        broken_since=row.broken_since,
        broken_reason=row.broken_reason,
        is_disabled=row.disabled,
        delivered_at=row.delivered_at,
    )
