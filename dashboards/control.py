"""Alerts and leases as the pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from actuators import read as actions
from actuators.lease import Kind, Lease, LeaseState
from alerts import read as alerts
from alerts.model import Condition
from alerts.read import Alert
from cost.read import Window
from dashboards.wording import UNKNOWN, count


@dataclass(frozen=True, slots=True)
class AlertView:
    """One alert: what, since when, and whether anybody was told.

    `until` None: it is not over. `marks` are what people or missing data made of it: silenced,
    acknowledged, frozen.
    """

    name: str
    slo: str
    group: Mapping[str, str]
    severity: str
    state: str  # pending, firing, clearing, resolved
    since: datetime
    until: datetime | None = None
    summary: str = ""
    marks: tuple[str, ...] = ()
    told: str = ""

    @property
    def is_open(self) -> bool:
        return self.state in {"firing", "clearing"}


@dataclass(frozen=True, slots=True)
class LeaseView:
    """One act of the control loop: what was done to what, why, and whether it helped."""

    id: str
    kind: str  # shed, cap, scale
    target: str
    action: str  # in words: "shed 90 % of tenant=acme"
    reason: str
    state: str
    created_at: datetime
    expires_at: datetime | None = None
    closed_at: datetime | None = None
    effect: str = ""
    is_dry_run: bool = False
    slo: str = ""  # for whose sake


def read_alerts(
    db: Engine, window: Window, now: datetime, slo: str | None = None
) -> list[AlertView]:
    """List what is active now and what fired at some time in the window; of one SLO, or all."""
    current = [a for a in alerts.current(db, now) if slo is None or a.slo == slo]
    seen = {alert.id for alert in current}
    past = [a for a in alerts.history(db, window.start, window.end, slo) if a.id not in seen]
    return [alert_view(a) for a in (*current, *past) if a.state is not Condition.INACTIVE]


def read_leases(db: Engine, window: Window) -> list[LeaseView]:
    """List the leases that are open and those made in the window."""
    found = actions.actions(db, limit=200, since=window.start)
    return [lease_view(lease) for lease in found if lease.created_at < window.end]


def alert_view(alert: Alert) -> AlertView:
    """Show an alert of the alerts folder."""
    marks = []
    if alert.frozen_since is not None:
        marks.append("frozen")
    if alert.silenced_by:
        marks.append("silenced")
    if alert.ack is not None:
        marks.append(f"acknowledged by {alert.ack.by}")
    return AlertView(
        name=alert.slo or alert.alertname,
        slo=alert.slo,
        group=alert.group,
        severity=str(alert.severity),
        state=str(alert.state),
        since=alert.since,
        until=alert.resolved_at,
        summary=_without_name(alert),
        marks=tuple(marks),
        told=_told(alert),
    )


def lease_view(lease: Lease) -> LeaseView:
    """Show a lease of the actuators folder."""
    return LeaseView(
        id=lease.id,
        kind=str(lease.kind),
        target=lease.target,
        action=action_words(lease),
        reason=lease.reason,
        state=str(lease.state),
        created_at=lease.created_at,
        expires_at=lease.expires_at if lease.is_open else None,
        closed_at=lease.closed_at,
        effect=_effect(lease),
        is_dry_run=lease.dry_run,
        slo=lease.slo,
    )


def action_words(lease: Lease) -> str:
    """Say what a lease does: shed 90 % of tenant=acme."""
    subject = lease.subject.replace("=", " ") or lease.target
    change: Mapping[str, Any] = lease.change
    match lease.kind:
        case Kind.SHED:
            return f"shed {change.get('fraction', 0) * 100:.0f} % of {subject}"
        case Kind.CAP:
            return f"cap {subject} at {change.get('max_concurrency', UNKNOWN)} in flight"
        case Kind.SCALE:
            before, after = lease.revert_to.get("desired", UNKNOWN), change.get("desired", UNKNOWN)
            return f"scale {lease.target} {before} → {after} replicas"


def _effect(lease: Lease) -> str:
    note = lease.history[-1].note if lease.history else ""
    if lease.state is LeaseState.FROZEN:
        return f"not judged: {note}"
    if lease.in_flight:
        return f"{_promise(lease)} by {lease.verify_by:%H:%M:%S}"
    if lease.after is None:
        return note
    metric = lease.expect.metric.replace("_", " ")
    return f"{metric} {count(lease.expect.before)} → {count(lease.after)}"


def _promise(lease: Lease) -> str:
    metric = lease.expect.metric.replace("_", " ")
    if lease.expect.direction == "hold":
        return f"{metric} must stay below {count(lease.expect.enough)}"
    return f"{metric} must fall by {lease.expect.by * 100:.0f} %"


def _without_name(alert: Alert) -> str:
    """Drop the "slo{group}: " a summary begins with: the page shows it beside."""
    head, colon, rest = alert.summary.partition(": ")
    return rest if colon and alert.slo and head.startswith(alert.slo) else alert.summary


def _told(alert: Alert) -> str:
    by_receiver = {
        d.receiver: d.status for d in sorted(alert.notifications, key=lambda d: d.created_at)
    }
    return ", ".join(f"{name}: {status}" for name, status in by_receiver.items())
