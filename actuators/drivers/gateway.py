"""The shedding policy, pulled by gateways: a versioned document made of the open leases.

Pull, not push: a gateway that loses us keeps the last document until each rule ends by itself.
What a gateway has taken is known from the version it names when it asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, insert, select, update

from actuators import register
from actuators.lease import Lease
from actuators.tables import policies
from base.clock import Clock
from base.db import transaction
from base.durations import format_instant, parse_instant
from base.errors import BadInput

MAX_WAIT_S = 60.0
_MAX_WAITERS = 16  # each holds a thread; whoever comes later is answered at once
_LOOK_AGAIN_S = 1.0  # another process may have published


@dataclass(frozen=True, slots=True)
class Policy:
    """What a gateway is served. `live` is the number of rules that have not ended."""

    gateway: str
    version: int
    document: Mapping[str, Any]
    live: int

    @property
    def etag(self) -> str:
        return f'"{self.version}.{self.live}"'


class PolicyBoard:
    """Publishes policies and remembers which version each gateway instance has."""

    def __init__(self, db: Engine, gateways: Mapping[str, timedelta], clock: Clock) -> None:
        self._db = db
        self._ttl = dict(gateways)
        self._clock = clock
        self._changed = threading.Condition()
        self._waiters = threading.BoundedSemaphore(_MAX_WAITERS)
        self._closed = False
        self._heard: dict[str, dict[str, tuple[int, datetime]]] = {g: {} for g in gateways}

    def publish(self, gateway: str, now: datetime) -> int:
        """Write the rules of the open leases as a new version, if they differ from the last."""
        with transaction(self._db) as connection:
            row = _row(connection, gateway)
            version, before = (row.version, row.rules) if row else (0, [])
            rules = _rules(register.open_leases(connection), gateway, before, version + 1)
            if row is not None and rules == before:
                return int(version)
            values = {"version": version + 1, "rules": rules, "issued_at": now}
            if row is None:
                connection.execute(insert(policies).values(gateway=gateway, **values))
            else:
                connection.execute(
                    update(policies).where(policies.c.gateway == gateway).values(**values)
                )
        with self._changed:
            self._changed.notify_all()
        return int(version) + 1

    def current(self, gateway: str, now: datetime) -> Policy:
        """Return what a gateway should have now. Raises BadInput for an unknown gateway."""
        ttl = self._ttl.get(gateway)
        if ttl is None:
            known = ", ".join(sorted(self._ttl)) or "none"
            raise BadInput(f"no gateway is called {gateway!r}; configured: {known}")
        with transaction(self._db) as connection:
            row = _row(connection, gateway)
        stored = row.rules if row else []
        live = [rule for rule in stored if parse_instant(rule["expires_at"]) > now]
        version = int(row.version) if row else 0
        document = {
            "gateway": gateway,
            "version": version,
            "issued_at": format_instant(now),
            "expires_at": format_instant(now + ttl),
            "ttl_s": ttl.total_seconds(),
            "rules": [{k: v for k, v in rule.items() if k != "since"} for rule in live],
        }
        return Policy(gateway, version, document, len(live))

    def wait(self, gateway: str, etag: str | None, wait_s: float) -> Policy:
        """Return the policy once it differs from `etag`, or after `wait_s` as it is."""
        policy = self.current(gateway, self._clock.now())
        if policy.etag != etag or wait_s <= 0 or not self._waiters.acquire(blocking=False):
            return policy
        try:
            end = self._clock.monotonic() + min(wait_s, MAX_WAIT_S)
            while policy.etag == etag and (left := end - self._clock.monotonic()) > 0:
                with self._changed:
                    if self._closed:
                        break
                    self._changed.wait(min(left, _LOOK_AGAIN_S))
                policy = self.current(gateway, self._clock.now())
        finally:
            self._waiters.release()
        return policy

    def close(self) -> None:
        """Answer everybody who waits, and let nobody wait any more: the process is stopping."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def heard(self, gateway: str, instance: str, version: int, now: datetime) -> None:
        """Note the version a gateway says it has."""
        with self._changed:
            if gateway in self._heard:
                self._heard[gateway][instance] = (version, now)

    def taken(self, lease: Lease, now: datetime) -> bool | None:
        """Say whether every gateway instance heard of lately has the lease's present rule."""
        gateway = lease.target.partition("/")[2]
        with transaction(self._db) as connection:
            row = _row(connection, gateway)
        rule = next((r for r in (row.rules if row else []) if r["id"] == lease.id), None)
        if rule is None or not _same(rule, _rule(lease)):
            return False
        silent_after = 2 * self._ttl.get(gateway, timedelta(minutes=1)) + timedelta(
            seconds=MAX_WAIT_S
        )
        with self._changed:
            seen = list(self._heard.get(gateway, {}).values())
        versions = [version for version, at in seen if now - at <= silent_after]
        return all(v >= rule["since"] for v in versions) if versions else None


class GatewayPolicy:
    """The driver of one gateway: to enact is to publish what the register holds."""

    def __init__(self, gateway: str, board: PolicyBoard) -> None:
        self._gateway = gateway
        self._board = board

    def enact(self, lease: Lease, change: Mapping[str, Any], now: datetime) -> None:  # noqa: ARG002
        self._board.publish(self._gateway, now)

    def in_place(self, lease: Lease, now: datetime) -> bool | None:
        return self._board.taken(lease, now)


def _row(connection: Connection, gateway: str) -> Any:
    return connection.execute(select(policies).where(policies.c.gateway == gateway)).one_or_none()


def _rules(
    leases: Sequence[Lease], gateway: str, before: Sequence[Mapping[str, Any]], version: int
) -> list[dict[str, Any]]:
    """Make the rules; `since` is the version in which a rule last changed, its end aside."""
    known = {rule["id"]: rule for rule in before}
    out = []
    for lease in leases:
        if lease.target != f"gateway/{gateway}" or lease.dry_run or lease.pending == "revert":
            continue
        rule = _rule(lease)
        old = known.get(lease.id)
        rule["since"] = old["since"] if old is not None and _same(old, rule) else version
        out.append(rule)
    return out


def _rule(lease: Lease) -> dict[str, Any]:
    match = dict.fromkeys(("tenant", "route", "priority", "model"))
    return {
        "id": lease.id,
        "match": {**match, **lease.change["match"]},
        "action": "shed",
        "fraction": lease.change.get("fraction"),
        "max_concurrency": lease.change.get("max_concurrency"),
        "retry_after_s": lease.change["retry_after_s"],
        "reason": f"{lease.subject.replace('=', ' ')}: {lease.cause.partition(':')[0]}",
        "expires_at": format_instant(lease.expires_at),
    }


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Compare what rules demand; when they end is another question."""
    apart = {"expires_at", "since"}
    return {k: v for k, v in one.items() if k not in apart} == {
        k: v for k, v in other.items() if k not in apart
    }
