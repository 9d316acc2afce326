"""What fires now, and what the control loop did about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dash import html

from dashboards.control import AlertView, LeaseView
from dashboards.parts import badge, nothing
from dashboards.wording import moment, span

_LEASE_TONES = {
    "proposed": "calm",
    "applied": "warn",
    "verified": "good",
    "failed": "bad",
    "reverted": "calm",
    "expired": "calm",
    "frozen": "frozen",
}
SHOWN = 12


def firing(alerts: Sequence[AlertView], now: datetime, within: str = "in this time range") -> Any:
    """List what fires, pages first, then what was resolved in the time range."""
    live = [a for a in alerts if a.state != "resolved"]
    over = [a for a in alerts if a.state == "resolved"]
    live.sort(key=lambda a: (a.severity != "page", a.state != "firing", a.since))
    over.sort(key=lambda a: a.until or now, reverse=True)
    if not live and not over:
        return nothing(f"Nothing fires, and nothing fired {within}.")
    return html.Ul([_alert(a, now) for a in (*live, *over)[:SHOWN]], className="events")


def timeline(leases: Sequence[LeaseView], now: datetime, within: str = "in this time range") -> Any:
    """List what was done, newest first, with whether it helped."""
    if not leases:
        return nothing(f"Nothing had to be done {within}.")
    newest = sorted(leases, key=lambda lease: lease.created_at, reverse=True)
    return html.Ol([_lease(lease, now) for lease in newest[:SHOWN]], className="events")


def _alert(alert: AlertView, now: datetime) -> Any:
    over = alert.state == "resolved"
    tone = "calm" if over else "bad" if alert.severity == "page" else "warn"
    what = alert.severity if alert.state == "firing" else alert.state
    lasted = span((alert.until or now) - alert.since)
    return html.Li(
        [
            html.Div(
                [
                    badge(what, tone),
                    *(badge(mark, "frozen") for mark in alert.marks),
                    html.Span(f"{moment(alert.since, now)} · {lasted}", className="event-when"),
                ],
                className="event-head",
            ),
            html.Div(
                [
                    html.B(alert.name),
                    *(html.Span(v, className="chip") for v in alert.group.values()),
                ],
                className="event-what",
            ),
            html.Div(alert.summary, className="event-why") if alert.summary else None,
            html.Div(alert.told, className="event-note") if alert.told else None,
        ],
        className="event over" if over else "event",
    )


def _lease(lease: LeaseView, now: datetime) -> Any:
    left = lease.expires_at - now if lease.expires_at and lease.closed_at is None else None
    when = moment(lease.created_at, now)
    if lease.closed_at is not None:
        when += f" · held {span(lease.closed_at - lease.created_at)}"
    elif left is not None and left.total_seconds() > 0:
        when += f" · expires in {span(left)}"
    return html.Li(
        [
            html.Div(
                [
                    badge(lease.state, _LEASE_TONES.get(lease.state, "calm")),
                    badge("dry run", "frozen") if lease.is_dry_run else None,
                    html.Span(when, className="event-when"),
                ],
                className="event-head",
            ),
            html.Div([html.B(lease.action)], className="event-what"),
            html.Div(lease.reason, className="event-why"),
            html.Div(lease.effect, className="event-note") if lease.effect else None,
        ],
        className="event over" if lease.closed_at else "event",
    )
