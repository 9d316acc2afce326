"""People overrule the loop: the kill switch, and holds on single targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from actuators import ledger
from actuators.tables import holds, kill_switch


@dataclass(frozen=True, slots=True)
class KillSwitch:
    """On: everything is taken back and nothing new is done."""

    on: bool
    by: str = ""
    reason: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Hands off this target until then."""

    target: str
    by: str
    reason: str
    at: datetime
    until: datetime


def read_kill_switch(connection: Connection) -> KillSwitch:
    """Return the switch; off when nobody ever touched it."""
    row = connection.execute(select(kill_switch)).one_or_none()
    return KillSwitch(False) if row is None else KillSwitch(row.on, row.by, row.reason, row.at)


def set_kill_switch(connection: Connection, switch: KillSwitch) -> None:
    """Turn the switch, with a name and a reason on record."""
    at = switch.at
    if at is None:
        raise ValueError("a kill switch needs the time it was turned")
    connection.execute(delete(kill_switch))
    connection.execute(
        insert(kill_switch).values(id=1, on=switch.on, by=switch.by, reason=switch.reason, at=at)
    )
    ledger.append(
        connection,
        at=at,
        lever="*",
        step="kill_switch_on" if switch.on else "kill_switch_off",
        actor=switch.by,
        detail={"reason": switch.reason},
    )


def active_holds(connection: Connection, now: datetime) -> Sequence[Hold]:
    """Return the holds that have not run out."""
    rows = connection.execute(select(holds).where(holds.c.until > now).order_by(holds.c.target))
    return tuple(Hold(r.target, r.by, r.reason, r.at, r.until) for r in rows)


def place_hold(connection: Connection, hold: Hold) -> None:
    """Hold a target; a new hold replaces an older one."""
    connection.execute(delete(holds).where(holds.c.target == hold.target))
    connection.execute(
        insert(holds).values(
            target=hold.target, by=hold.by, reason=hold.reason, at=hold.at, until=hold.until
        )
    )
    ledger.append(
        connection,
        at=hold.at,
        lever=hold.target,
        step="held",
        actor=hold.by,
        detail={"reason": hold.reason, "until": hold.until},
    )


def lift_hold(connection: Connection, target: str, by: str, now: datetime) -> bool:
    """End a hold early. False: there was none."""
    found = connection.execute(delete(holds).where(holds.c.target == target)).rowcount > 0
    if found:
        ledger.append(connection, at=now, lever=target, step="hold_lifted", actor=by, detail={})
    return found
