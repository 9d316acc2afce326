"""`/api/v1/alerts`: alerts, acknowledgements, silences, receivers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine

from alerts import acks, book, endpoints, read, silences
from alerts.acks import Ack
from alerts.endpoints import Endpoint
from alerts.engine import AlertEngine
from alerts.matchers import Matcher, parse_matcher
from alerts.model import Condition, Severity
from alerts.read import Alert, Delivery
from alerts.silences import Silence
from base.clock import Clock
from base.db import transaction
from base.durations import format_instant, parse_duration, parse_instant
from base.errors import BadInput
from base.ids import new_id


class AckBody(BaseModel):
    """Who has it; `for` ("1h") limits it, else it lasts as long as the episode."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(min_length=1, max_length=256)
    note: str = ""
    for_: str | None = Field(default=None, alias="for")


class CloseBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    by: str = Field(min_length=1, max_length=256)


class SilenceBody(BaseModel):
    """`matchers` like ["slo=chat", "tenant=~a.*"]; give `ends_at` or `for` ("2h")."""

    model_config = ConfigDict(extra="forbid")

    matchers: list[str] = Field(min_length=1)
    starts_at: str | None = None
    ends_at: str | None = None
    for_: str | None = Field(default=None, alias="for")
    created_by: str = Field(min_length=1, max_length=256)
    comment: str = ""


def router(db: Engine, engine: AlertEngine, clock: Clock) -> APIRouter:
    """Make the routes. BadInput is left to the application's handler, which answers 400."""
    api = APIRouter(prefix="/api/v1", tags=["alerts"])
    _alert_routes(api, db, engine, clock)
    _silence_routes(api, db, clock)
    _receiver_routes(api, db)
    return api


def _alert_routes(api: APIRouter, db: Engine, engine: AlertEngine, clock: Clock) -> None:
    @api.get("/alerts")
    def list_alerts(
        state: Condition | None = None,
        severity: Severity | None = None,
        slo: str | None = None,
        from_: Annotated[str | None, Query(alias="from")] = None,
        to: str | None = None,
        now: str | None = None,
    ) -> dict[str, Any]:
        """List active and just resolved alerts; with `from` or `to`, past episodes too."""
        at = parse_instant(now) if now else clock.now()
        if from_ or to:
            until = parse_instant(to) if to else at
            since = parse_instant(from_) if from_ else until - timedelta(days=1)
            found = read.history(db, since, until)
        else:
            found = read.current(db, at)
        shown = [
            alert_json(alert)
            for alert in found
            if state in {None, alert.state}
            and severity in {None, alert.severity}
            and slo in {None, alert.slo}
        ]
        return {"now": format_instant(at), "alerts": shown}

    @api.get("/alerts/{alert_id}/timeline")
    def tell_story(alert_id: str) -> dict[str, Any]:
        events = read.events(db, alert_id)
        return {
            "events": [
                {"at": format_instant(e.at), "what": e.what, "by": e.by, "note": e.note}
                for e in events
            ]
        }

    @api.post("/alerts/{alert_id}/ack")
    def acknowledge(alert_id: str, body: AckBody) -> dict[str, Any]:
        """Say that somebody has it: no more repeats. `alert_id` is an episode or a fingerprint."""
        now = clock.now()
        alert = _find(read.active(db, now), alert_id)
        until = now + parse_duration(body.for_) if body.for_ else None
        ack = Ack(alert.id, body.by, body.note, now, until)
        with transaction(db) as connection:
            acks.write(connection, ack)
            book.note(connection, alert.id, now, "acknowledged", body.by, body.note)
        return {"id": alert.id, "ack": _ack_json(ack)}

    @api.delete("/alerts/{alert_id}/ack", status_code=204)
    def withdraw_ack(alert_id: str) -> None:
        with transaction(db) as connection:
            if not acks.remove(connection, alert_id):
                raise HTTPException(404, f"alert {alert_id!r} is not acknowledged")

    @api.post("/alerts/{alert_id}/close", status_code=204)
    def close(alert_id: str, body: CloseBody) -> None:
        """End an alert by hand, for one whose source will never speak again."""
        now = clock.now()
        alert = _find(read.active(db, now), alert_id)
        if not engine.close(alert.id, body.by, now):
            raise HTTPException(409, f"alert {alert_id!r} is not firing")


def _silence_routes(api: APIRouter, db: Engine, clock: Clock) -> None:
    @api.get("/silences")
    def list_silences() -> dict[str, Any]:
        now = clock.now()
        with transaction(db) as connection:
            found = silences.all_silences(connection)
        return {"silences": [_silence_json(silence, now) for silence in found]}

    @api.post("/silences", status_code=201)
    def add_silence(body: SilenceBody) -> dict[str, Any]:
        now = clock.now()
        silence = _silence(body, new_silence_id(clock), now)
        with transaction(db) as connection:
            silences.add(connection, silence, now)
        return _silence_json(silence, now)

    @api.put("/silences/{silence_id}")
    def change_silence(silence_id: str, body: SilenceBody) -> dict[str, Any]:
        now = clock.now()
        silence = _silence(body, silence_id, now)
        with transaction(db) as connection:
            if not silences.change(connection, silence, now):
                raise HTTPException(404, f"silence {silence_id!r} does not exist or has expired")
        return _silence_json(silence, now)

    @api.delete("/silences/{silence_id}", status_code=204)
    def expire_silence(silence_id: str) -> None:
        with transaction(db) as connection:
            if not silences.expire(connection, silence_id, clock.now()):
                raise HTTPException(404, f"silence {silence_id!r} does not exist or has expired")


def _receiver_routes(api: APIRouter, db: Engine) -> None:
    @api.get("/receivers")
    def list_receivers() -> dict[str, Any]:
        """Show the health of each receiver: its circuit, and whether it is disabled."""
        with transaction(db) as connection:
            found = endpoints.load(connection).values()
        return {"receivers": [_endpoint_json(endpoint) for endpoint in found]}

    @api.post("/receivers/{name}/enable", status_code=204)
    def enable_receiver(name: str) -> None:
        with transaction(db) as connection:
            if not endpoints.enable(connection, name):
                raise HTTPException(404, f"there is no receiver {name!r}")


def new_silence_id(clock: Clock) -> str:
    """Make a UUID, which is what Alertmanager's clients expect of a silence."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, new_id(clock)))


def alert_json(alert: Alert) -> dict[str, Any]:
    """Write an alert for the API; what is unknown is null."""
    return {
        "id": alert.id,
        "episode": alert.id,
        "fingerprint": alert.fingerprint,
        "alertname": alert.alertname,
        "slo": alert.slo or None,
        "group": dict(alert.group),
        "labels": dict(alert.labels),
        "severity": alert.severity,
        "state": alert.state,
        "tier": alert.tier or None,
        "since": format_instant(alert.since),
        "fired_at": _instant(alert.fired_at),
        "resolved_at": _instant(alert.resolved_at),
        "frozen": alert.is_frozen,
        "frozen_since": _instant(alert.frozen_since),
        "frozen_reason": alert.frozen_reason or None,
        "summary": alert.summary,
        "annotations": dict(alert.annotations),
        "silenced_by": list(alert.silenced_by),
        "ack": _ack_json(alert.ack) if alert.ack else None,
        "notifications": [_delivery_json(delivery) for delivery in alert.notifications],
    }


def _delivery_json(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": delivery.id,
        "receiver": delivery.receiver,
        "reason": delivery.reason,
        "status": delivery.status,
        "detail": delivery.detail or None,
        "attempts": delivery.attempts,
        "created_at": format_instant(delivery.created_at),
        "settled_at": _instant(delivery.settled_at),
        "next_attempt_at": _instant(delivery.next_attempt_at),
        "http_status": delivery.http_status,
    }


def _ack_json(ack: Ack) -> dict[str, Any]:
    return {
        "by": ack.by,
        "note": ack.note,
        "at": format_instant(ack.at),
        "until": _instant(ack.until),
    }


def _silence_json(silence: Silence, now: datetime) -> dict[str, Any]:
    return {
        "id": silence.id,
        "state": silence.state(now),
        "matchers": [str(matcher) for matcher in silence.matchers],
        "starts_at": format_instant(silence.starts_at),
        "ends_at": format_instant(silence.ends_at),
        "created_by": silence.created_by,
        "comment": silence.comment,
        "updated_at": format_instant(silence.updated_at),
    }


def _endpoint_json(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": endpoint.receiver,
        "failures": endpoint.failures,
        "disabled": endpoint.is_disabled,
        "not_before": _instant(endpoint.not_before),
        "broken_since": _instant(endpoint.broken_since),
        "broken_reason": endpoint.broken_reason or None,
        "delivered_at": _instant(endpoint.delivered_at),
    }


def _silence(body: SilenceBody, silence_id: str, now: datetime) -> Silence:
    if (body.ends_at is None) == (body.for_ is None):
        raise BadInput("a silence needs ends_at or for, and not both")
    starts_at = parse_instant(body.starts_at) if body.starts_at else now
    ends_at = (
        parse_instant(body.ends_at) if body.ends_at else starts_at + parse_duration(body.for_ or "")
    )
    matchers: tuple[Matcher, ...] = tuple(parse_matcher(text) for text in body.matchers)
    return Silence(
        silence_id, matchers, starts_at, ends_at, body.created_by, body.comment, updated_at=now
    )


def _find(alerts: Sequence[Alert], wanted: str) -> Alert:
    for alert in alerts:
        if wanted in {alert.id, alert.fingerprint}:
            return alert
    raise HTTPException(404, f"no active alert has the id {wanted!r}")


def _instant(moment: datetime | None) -> str | None:
    return None if moment is None else format_instant(moment)
