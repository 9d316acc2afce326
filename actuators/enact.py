"""Row first, world second: every change is written down before it is made, and after.

A crash between any two lines leaves a lease whose `pending` says what to finish.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import Engine

from actuators import ledger, metrics, register
from actuators.lease import Lease, LeaseState
from actuators.proposal import Proposal, Step
from actuators.settings import ActuatorSettings
from base.clock import Clock
from base.db import transaction
from base.errors import Permanent, TokenweirError
from base.ids import new_id
from base.selfmon import Log

log = Log(__name__)


class Driver(Protocol):
    """Moves one target and can tell whether it moved."""

    def enact(self, lease: Lease, change: Mapping[str, Any], now: datetime) -> None:
        """Make the target so; again changes nothing.

        Raises TokenweirError when it may not be so.
        """
        ...

    def in_place(self, lease: Lease, now: datetime) -> bool | None:
        """Read back whether the lease's change is in force; None when that can't be told."""
        ...


class Enactor:
    """Carries leases through their states, in the database and in the world."""

    def __init__(
        self,
        db: Engine,
        drivers: Mapping[str, Driver],
        settings: ActuatorSettings,
        clock: Clock,
    ) -> None:
        self._db = db
        self._drivers = drivers
        self._settings = settings
        self._clock = clock

    def open(self, proposal: Proposal, evidence: Mapping[str, Any], now: datetime) -> Lease:
        """Turn a proposal into a lease and apply it."""
        expect = proposal.expect
        if expect is None:
            raise Permanent(f"the proposal for {proposal.key} expects nothing")
        lease = Lease(
            id=new_id(self._clock),
            target=proposal.target,
            subject=proposal.subject,
            kind=proposal.kind,
            change=proposal.change,
            revert_to=proposal.revert_to,
            reason=proposal.reason,
            cause=proposal.cause,
            evidence=evidence,
            expect=expect,
            on_expiry=proposal.on_expiry,
            slo=proposal.slo,
            episode=proposal.episode,
            created_at=now,
            expires_at=now + self._settings.lease_ttl,
            verify_by=now + expect.within,
            state=LeaseState.PROPOSED,
            changed_at=now,
            pending="apply",
            dry_run=self._settings.dry_run,
        )
        lease = self._write(lease, now, "proposed", proposal.reason, new=True)
        return self.finish(lease, now)

    def amend(self, lease: Lease, proposal: Proposal, now: datetime) -> Lease:
        """Do more or less of an open lease. More must prove itself again."""
        changed = replace(lease, change=proposal.change, pending="apply", changed_at=now)
        step = "eased"
        if proposal.step is Step.RAISE:
            step = "raised"
            expect = proposal.expect or lease.expect
            changed = replace(
                changed,
                state=LeaseState.APPLIED,
                expect=expect,
                verify_by=now + expect.within,
                expires_at=now + self._settings.lease_ttl,
            )
        return self.finish(self._write(changed, now, step, proposal.reason), now)

    def take_back(
        self, lease: Lease, as_state: LeaseState, note: str, now: datetime, actor: str = "tokenweir"
    ) -> Lease:
        """Undo the change, then close the lease as failed, reverted or expired."""
        going = replace(lease, pending="revert", close_as=as_state)
        return self.finish(self._write(going, now, "revert_started", note, actor), now)

    def leave(
        self, lease: Lease, as_state: LeaseState, note: str, now: datetime, actor: str = "tokenweir"
    ) -> Lease:
        """Close the lease and leave the world as it is."""
        closed = replace(lease, state=as_state, pending=None, frozen_from=None, closed_at=now)
        return self._write(closed, now, str(as_state), note, actor)

    def record(self, lease: Lease, now: datetime, step: str, note: str) -> Lease:
        """Store a lease whose state, not whose change, moved on."""
        return self._write(lease, now, step, note)

    def extend(self, lease: Lease, now: datetime) -> Lease:
        """Give a lease its full time again; gateways learn the new end."""
        longer = replace(lease, expires_at=now + self._settings.lease_ttl)
        with transaction(self._db) as connection:
            register.save(connection, longer)
        if not longer.dry_run and longer.target.startswith("gateway/"):
            self._enact(longer, longer.change, now)
        return longer

    def in_place(self, lease: Lease, now: datetime) -> bool | None:
        """Read back; a dry run is taken as in place."""
        driver = self._drivers.get(lease.target)
        if lease.dry_run:
            return True
        return None if driver is None else driver.in_place(lease, now)

    def finish(self, lease: Lease, now: datetime) -> Lease:
        """Do what is pending. What fails stays pending and is tried again at the next tick.

        A new lease whose target refused is taken back instead: nobody knows how much of it
        arrived.
        """
        if lease.pending == "apply":
            if self._enact(lease, lease.change, now):
                first = lease.state is LeaseState.PROPOSED
                done = replace(
                    lease, state=LeaseState.APPLIED if first else lease.state, pending=None
                )
                return self._write(done, now, "applied", _said(lease.change))
            if lease.state is LeaseState.PROPOSED:
                return self.take_back(lease, LeaseState.FAILED, "could not be applied", now)
        elif lease.pending == "revert" and self._enact(lease, lease.revert_to, now):
            state = lease.close_as or LeaseState.REVERTED
            closed = replace(lease, state=state, pending=None, frozen_from=None, closed_at=now)
            return self._write(closed, now, str(state), _said(lease.revert_to))
        return lease

    def _enact(self, lease: Lease, change: Mapping[str, Any], now: datetime) -> bool:
        driver = self._drivers.get(lease.target)
        if lease.dry_run or driver is None:
            return lease.dry_run
        try:
            driver.enact(lease, change, now)
        except TokenweirError as error:
            metrics.DRIVER_FAILURES.labels(kind=str(lease.kind)).inc()
            log.warning("lever_failed", lease=lease.id, target=lease.target, error=str(error))
            return False
        return True

    def _write(
        self,
        lease: Lease,
        now: datetime,
        step: str,
        note: str,
        actor: str = "tokenweir",
        *,
        new: bool = False,
    ) -> Lease:
        noted = lease.noted(now, step, note, actor)
        with transaction(self._db) as connection:
            (register.add if new else register.save)(connection, noted)
            ledger.append(
                connection,
                at=now,
                lease_id=noted.id,
                lever=noted.key,
                step=noted.history[-1].step,
                actor=actor,
                detail={
                    "note": note,
                    "state": noted.state,
                    "change": noted.change,
                    "after": noted.after,
                    "evidence": noted.evidence if new else None,
                },
            )
        metrics.STEPS.labels(kind=str(noted.kind), step=noted.history[-1].step).inc()
        log.info("lease_step", step=step, lease=noted.id, lever=noted.key, note=note)
        return noted


def _said(change: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={v}" for k, v in change.items()) or "nothing in force"
