"""`/api/v2`: the read side of Alertmanager's API and its silences, so that amtool works here.

Contract: prometheus/alertmanager api/v2/openapi.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field
from sqlalchemy import Engine

from alerts import read, silences, wording
from alerts.api import new_silence_id
from alerts.matchers import Matcher, all_match, parse_matcher
from alerts.model import OPEN
from alerts.read import Alert
from alerts.receivers import Receiver, pagers
from alerts.silences import Silence
from base.clock import Clock
from base.db import transaction
from base.durations import format_instant, parse_instant
from base.errors import BadInput


class MatcherBody(BaseModel):
    name: str
    value: str
    isRegex: bool = False  # noqa: N815  the contract's spelling
    isEqual: bool = True  # noqa: N815


class PostableSilence(BaseModel):
    id: str | None = None
    matchers: list[MatcherBody] = Field(min_length=1)
    startsAt: str  # noqa: N815
    endsAt: str  # noqa: N815
    createdBy: str  # noqa: N815
    comment: str


Filters = Annotated[list[str] | None, Query(alias="filter")]


def router(db: Engine, receivers: Sequence[Receiver], clock: Clock, external_url: str) -> APIRouter:
    api = APIRouter(prefix="/api/v2", tags=["alertmanager"])
    started_at = clock.now()
    names = [receiver.name for receiver in pagers(receivers)]
    view = _View(db, receivers, clock, external_url)

    @api.get("/alerts")
    def list_alerts(
        filters: Filters = None,
        active: bool = True,
        silenced: bool = True,
        receiver: str | None = None,
    ) -> list[dict[str, Any]]:
        return view.alerts(filters, active=active, silenced=silenced, receiver=receiver)

    @api.get("/alerts/groups")
    def list_groups(
        filters: Filters = None,
        active: bool = True,
        silenced: bool = True,
        receiver: str | None = None,
    ) -> list[dict[str, Any]]:
        shown = view.alerts(filters, active=active, silenced=silenced, receiver=receiver)
        return [
            {"labels": dict(key), "receiver": {"name": name}, "alerts": members}
            for (name, key), members in _grouped(shown).items()
        ]

    @api.get("/receivers")
    def list_receivers() -> list[dict[str, str]]:
        return [{"name": name} for name in names]

    @api.get("/status")
    def show_status() -> dict[str, Any]:
        return {
            "cluster": {"status": "disabled", "peers": []},
            "config": {"original": "# tokenweir: see tokenweir.yaml\n"},
            "uptime": format_instant(started_at),
            "versionInfo": {
                "version": "tokenweir",
                "branch": "",
                "buildDate": "",
                "buildUser": "",
                "goVersion": "",
                "revision": "",
            },
        }

    _silence_routes(api, db, clock)
    return api


def _silence_routes(api: APIRouter, db: Engine, clock: Clock) -> None:
    @api.get("/silences")
    def list_silences(filters: Filters = None) -> list[dict[str, Any]]:
        wanted = [parse_matcher(text) for text in filters or ()]
        with transaction(db) as connection:
            found = silences.all_silences(connection)
        now = clock.now()
        return [
            _silence_json(silence, now)
            for silence in found
            if all_match(wanted, {m.name: m.value for m in silence.matchers})
        ]

    @api.post("/silences")
    def post_silence(body: PostableSilence) -> dict[str, str]:
        """Add a silence; with the id of one that has not expired, replace that one."""
        now = clock.now()
        silence = _silence(body, body.id or new_silence_id(clock), now)
        with transaction(db) as connection:
            if body.id is None:
                silences.add(connection, silence, now)
            elif not silences.change(connection, silence, now):
                raise HTTPException(404, f"silence {body.id!r} does not exist or has expired")
        return {"silenceID": silence.id}

    @api.get("/silence/{silence_id}")
    def get_silence(silence_id: str) -> dict[str, Any]:
        with transaction(db) as connection:
            silence = silences.find(connection, silence_id)
        if silence is None:
            raise HTTPException(404, f"silence {silence_id!r} does not exist")
        return _silence_json(silence, clock.now())

    @api.delete("/silence/{silence_id}")
    def delete_silence(silence_id: str) -> None:
        with transaction(db) as connection:
            if not silences.expire(connection, silence_id, clock.now()):
                raise HTTPException(404, f"silence {silence_id!r} does not exist or has expired")


class _View:
    def __init__(
        self, db: Engine, receivers: Sequence[Receiver], clock: Clock, external_url: str
    ) -> None:
        self._db = db
        self._receivers = pagers(receivers)
        self._clock = clock
        self._external_url = external_url

    def alerts(
        self, filters: list[str] | None, *, active: bool, silenced: bool, receiver: str | None
    ) -> list[dict[str, Any]]:
        matchers = [parse_matcher(text) for text in filters or ()]
        pattern = _pattern(receiver)
        now = self._clock.now()
        shown = []
        for alert in read.active(self._db, now):
            names = [r.name for r in self._receivers if alert.severity in r.severities]
            if alert.state not in OPEN or not all_match(matchers, alert.labels):
                continue
            if not (silenced if alert.silenced_by else active):
                continue
            if pattern is not None and not any(pattern.fullmatch(name) for name in names):
                continue
            shown.append(self._json(alert, names, now))
        return shown

    def _json(self, alert: Alert, names: Iterable[str], now: datetime) -> dict[str, Any]:
        return {
            "labels": dict(alert.labels),
            "annotations": dict(alert.annotations),
            "startsAt": format_instant(alert.since),
            "endsAt": format_instant(alert.resolved_at or now),
            "updatedAt": format_instant(now),
            "fingerprint": alert.fingerprint,
            "generatorURL": wording.dashboard_url(self._external_url, alert.slo, alert.group),
            "receivers": [{"name": name} for name in names],
            "status": {
                "state": "suppressed" if alert.silenced_by else "active",
                "silencedBy": list(alert.silenced_by),
                "inhibitedBy": [],
                "mutedBy": [],
            },
        }


def _grouped(
    alerts: Iterable[dict[str, Any]],
) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[dict[str, Any]]]:
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[dict[str, Any]]] = {}
    for alert in alerts:
        name = "slo" if "slo" in alert["labels"] else "alertname"
        key = ((name, alert["labels"][name]),)
        for receiver in alert["receivers"]:
            groups.setdefault((receiver["name"], key), []).append(alert)
    return groups


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise BadInput(f"receiver {text!r} is not a regular expression: {error}") from error


def _silence(body: PostableSilence, silence_id: str, now: datetime) -> Silence:
    return Silence(
        id=silence_id,
        matchers=tuple(Matcher(m.name, m.value, m.isRegex, m.isEqual) for m in body.matchers),
        starts_at=max(parse_instant(body.startsAt), now),
        ends_at=parse_instant(body.endsAt),
        created_by=body.createdBy,
        comment=body.comment,
        updated_at=now,
    )


def _silence_json(silence: Silence, now: datetime) -> dict[str, Any]:
    return {
        "id": silence.id,
        "status": {"state": silence.state(now)},
        "updatedAt": format_instant(silence.updated_at),
        "comment": silence.comment,
        "createdBy": silence.created_by,
        "startsAt": format_instant(silence.starts_at),
        "endsAt": format_instant(silence.ends_at),
        "matchers": [
            {"name": m.name, "value": m.value, "isRegex": m.is_regex, "isEqual": m.is_equal}
            for m in silence.matchers
        ],
    }
