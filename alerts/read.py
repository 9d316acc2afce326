"""What others may know of alerts: what is active, what was, and what became of its notifications.

Reads only; used by actuators, dashboards and the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, or_, select, true

from alerts import acks, book, silences, wording
from alerts.acks import Ack
from alerts.book import Episode, Record
from alerts.compose import group_labels, labels_of
from alerts.facts import Facts
from alerts.model import Condition, Severity
from alerts.notice import group_key
from alerts.tables import episodes, outbox, timeline
from base.db import transaction

_MANY = 500


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification to one receiver. `next_attempt_at` is None once it is settled."""

    id: str
    receiver: str
    reason: str
    status: str
    detail: str
    attempts: int
    created_at: datetime
    settled_at: datetime | None
    next_attempt_at: datetime | None
    http_status: int | None
    mentions: frozenset[str]  # episodes


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert as it stands. `since` is when it began to fire, or to be pending."""

    id: str  # the episode
    fingerprint: str
    alertname: str
    slo: str
    group: Mapping[str, str]
    labels: Mapping[str, str]
    severity: Severity
    state: Condition
    tier: str
    since: datetime
    fired_at: datetime | None
    resolved_at: datetime | None
    frozen_since: datetime | None
    frozen_reason: str
    annotations: Mapping[str, str]
    facts: Facts
    silenced_by: tuple[str, ...] = ()
    ack: Ack | None = None
    notifications: tuple[Delivery, ...] = ()

    @property
    def is_frozen(self) -> bool:
        return self.frozen_since is not None

    @property
    def summary(self) -> str:
        return self.annotations.get("summary", "")


@dataclass(frozen=True, slots=True)
class Event:
    """One line of an episode's timeline."""

    at: datetime
    what: str
    by: str
    note: str


def active(db: Engine, now: datetime) -> list[Alert]:
    """List what is pending, firing or clearing, the loudest first."""
    return [alert for alert in current(db, now) if alert.state is not Condition.RESOLVED]


def current(db: Engine, now: datetime) -> list[Alert]:
    """List what is active and what resolved in the last minutes, the loudest and oldest first."""
    with transaction(db) as connection:
        records = book.load(connection).values()
        muting = silences.active(connection, now)
        acked = acks.holding(connection, now)
        deliveries = _deliveries(connection, records)
        found = [_alert(record, muting, acked, deliveries, now) for record in records]
    return sorted(found, key=lambda a: (a.state is Condition.RESOLVED, -a.severity.rank, a.since))


def history(db: Engine, start: datetime, end: datetime, slo: str | None = None) -> list[Alert]:
    """List the episodes that were open at some time in [start, end], the newest first."""
    with transaction(db) as connection:
        rows = connection.execute(
            select(episodes)
            .where(
                episodes.c.fired_at <= end,
                or_(episodes.c.resolved_at.is_(None), episodes.c.resolved_at >= start),
                true() if slo is None else episodes.c.slo == slo,
            )
            .order_by(episodes.c.fired_at.desc(), episodes.c.episode)
            .limit(_MANY)
        )
        past = [book.episode_of(row) for row in rows]
        deliveries = _deliveries(connection, past)
        return [_past(episode, deliveries) for episode in past]


def events(db: Engine, episode: str) -> list[Event]:
    """Tell one episode's story in order."""
    with transaction(db) as connection:
        rows = connection.execute(
            select(timeline).where(timeline.c.episode == episode).order_by(timeline.c.id)
        )
        return [Event(row.at, row.what, row.by, row.note) for row in rows]


def _alert(
    record: Record,
    muting: Sequence[silences.Silence],
    acked: Mapping[str, Ack],
    deliveries: Iterable[Delivery],
    now: datetime,
) -> Alert:
    state = record.state
    severity, episode = state.severity or Severity.TICKET, state.episode or ""
    labels = {**labels_of(record), "severity": str(severity)}
    return Alert(
        id=episode,
        fingerprint=record.fingerprint,
        alertname=record.alertname,
        slo=record.slo,
        group=record.group,
        labels=labels,
        severity=severity,
        state=state.condition,
        tier=state.tier,
        since=state.fired_at or state.since or now,
        fired_at=state.fired_at,
        resolved_at=state.resolved_at,
        frozen_since=state.frozen_since,
        frozen_reason=state.frozen_reason,
        annotations=wording.describe(
            record.slo, record.group, severity, record.facts, (), state.resolved_at
        ),
        facts=record.facts,
        silenced_by=tuple(silences.covering(muting, labels, now)),
        ack=acked.get(episode),
        notifications=tuple(d for d in deliveries if episode in d.mentions),
    )


def _past(episode: Episode, deliveries: Iterable[Delivery]) -> Alert:
    is_over = episode.resolved_at is not None
    return Alert(
        id=episode.episode,
        fingerprint=episode.fingerprint,
        alertname=episode.alertname,
        slo=episode.slo,
        group=episode.group,
        labels={**labels_of(episode), "severity": str(episode.peak_severity)},
        severity=episode.peak_severity,
        state=Condition.RESOLVED if is_over else Condition.FIRING,
        tier="",
        since=episode.fired_at,
        fired_at=episode.fired_at,
        resolved_at=episode.resolved_at,
        frozen_since=None,
        frozen_reason="",
        annotations=wording.describe(
            episode.slo,
            episode.group,
            episode.peak_severity,
            episode.facts,
            (),
            episode.resolved_at,
        ),
        facts=episode.facts,
        notifications=tuple(d for d in deliveries if episode.episode in d.mentions),
    )


def _deliveries(connection: Connection, alerts: Iterable[Record | Episode]) -> list[Delivery]:
    keys = sorted({group_key(group_labels(alert)) for alert in alerts})
    if not keys:
        return []
    columns = [column for column in outbox.c if column.name != "body"]
    rows = connection.execute(
        select(*columns)
        .where(outbox.c.group_key.in_(keys))
        .order_by(outbox.c.created_at.desc(), outbox.c.id.desc())
        .limit(_MANY)
    )
    return [_delivery(row) for row in rows]


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        id=row.id,
        receiver=row.receiver,
        reason=row.reason,
        status=row.status,
        detail=row.status_reason,
        attempts=row.attempts,
        created_at=row.created_at,
        settled_at=row.settled_at,
        next_attempt_at=row.due_at if row.settled_at is None else None,
        http_status=row.last_status,
        mentions=frozenset([*row.firing, *row.resolved]),
    )
