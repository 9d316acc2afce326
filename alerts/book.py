"""Alert state and episodes in the database: read at the start of a tick, written at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from alerts.facts import Facts
from alerts.model import AlertState, Condition, Edge, Severity, Turn
from alerts.tables import episodes, states, timeline


@dataclass(frozen=True, slots=True)
class Record:
    """One alert with everything known about it."""

    fingerprint: str
    alertname: str
    slo: str
    group: Mapping[str, str]
    state: AlertState
    facts: Facts
    evaluated_at: datetime


@dataclass(frozen=True, slots=True)
class Episode:
    """One run of an alert, from firing to resolved."""

    episode: str
    fingerprint: str
    alertname: str
    slo: str
    group: Mapping[str, str]
    severity: Severity
    peak_severity: Severity
    fired_at: datetime
    resolved_at: datetime | None
    facts: Facts


def load(connection: Connection) -> dict[str, Record]:
    """Read every alert that is not inactive, by fingerprint."""
    return {row.fingerprint: _record(row) for row in connection.execute(select(states))}


def save(connection: Connection, before: Mapping[str, Record], after: Mapping[str, Record]) -> None:
    """Write what differs; an inactive alert has no row."""
    kept = {k: r for k, r in after.items() if r.state.condition is not Condition.INACTIVE}
    dropped = before.keys() - kept.keys()
    if dropped:
        connection.execute(delete(states).where(states.c.fingerprint.in_(sorted(dropped))))
    new = [_values(record) for key, record in kept.items() if key not in before]
    if new:
        connection.execute(insert(states), new)
    changed = [
        {**_values(record), "key": key}
        for key, record in kept.items()
        if key in before and record != before[key]
    ]
    if changed:
        statement = update(states).where(states.c.fingerprint == bindparam("key"))
        connection.execute(statement, changed)


def chronicle(connection: Connection, edges: Iterable[Edge], after: Mapping[str, Record]) -> None:
    """Write episodes and the timeline for this tick's edges."""
    edges = [edge for edge in edges if edge.episode is not None]
    if not edges:
        return
    fired = [_opened(after[e.fingerprint]) for e in edges if e.turn is Turn.FIRED]
    if fired:
        connection.execute(insert(episodes), fired)
    moved = {e.episode: after[e.fingerprint] for e in edges if e.turn in _MOVES}
    if moved:
        amend = update(episodes).where(episodes.c.episode == bindparam("key"))
        connection.execute(amend, [_moved(record) for record in moved.values()])
    raised = [{"key": edge.episode} for edge in edges if edge.turn is Turn.RAISED]
    if raised:
        louder = update(episodes).where(episodes.c.episode == bindparam("key"))
        connection.execute(louder.values(peak_severity=Severity.PAGE), raised)
    connection.execute(insert(timeline), [_entry(edge) for edge in edges])


def find_episodes(connection: Connection, wanted: Iterable[str]) -> dict[str, Episode]:
    """Read episodes by id."""
    ids = sorted(set(wanted))
    if not ids:
        return {}
    rows = connection.execute(select(episodes).where(episodes.c.episode.in_(ids)))
    return {row.episode: episode_of(row) for row in rows}


def note(connection: Connection, episode: str, at: datetime, what: str, by: str, text: str) -> None:
    """Write what a person did into the episode's timeline."""
    entry = {"episode": episode, "at": at, "what": what, "severity": None, "by": by, "note": text}
    connection.execute(insert(timeline), [entry])


def episode_of(row: Row[Any]) -> Episode:
    return Episode(
        episode=row.episode,
        fingerprint=row.fingerprint,
        alertname=row.alertname,
        slo=row.slo,
        group=row.group_labels,
        severity=Severity(row.severity),
        peak_severity=Severity(row.peak_severity),
        fired_at=row.fired_at,
        resolved_at=row.resolved_at,
        facts=Facts.from_json(row.facts),
    )


_MOVES = frozenset({Turn.RAISED, Turn.LOWERED, Turn.RESOLVED})


def _moved(record: Record) -> dict[str, Any]:
    state = record.state
    return {
        "key": state.episode,
        "severity": state.severity,
        "resolved_at": state.resolved_at,
        "facts": record.facts.to_json(),
    }


def _opened(record: Record) -> dict[str, Any]:
    return {
        "episode": record.state.episode,
        "fingerprint": record.fingerprint,
        "alertname": record.alertname,
        "slo": record.slo,
        "group_labels": dict(record.group),
        "severity": record.state.severity,
        "peak_severity": record.state.severity,
        "fired_at": record.state.fired_at,
        "resolved_at": None,
        "facts": record.facts.to_json(),
    }


def _entry(edge: Edge) -> dict[str, Any]:
    return {
        "episode": edge.episode,
        "at": edge.at,
        "what": str(edge.turn),
        "severity": edge.severity,
        "by": "tokenweir",
        "note": edge.reason,
    }


def _record(row: Row[Any]) -> Record:
    state = AlertState(
        condition=Condition(row.condition),
        since=row.since,
        severity=Severity(row.severity) if row.severity else None,
        tier=row.tier,
        episode=row.episode,
        fired_at=row.fired_at,
        resolved_at=row.resolved_at,
        hold_for=timedelta(seconds=row.hold_for_s),
        keep_for=timedelta(seconds=row.keep_for_s),
        easing_since=row.easing_since,
        frozen_since=row.frozen_since,
        frozen_reason=row.frozen_reason,
    )
    return Record(
        fingerprint=row.fingerprint,
        alertname=row.alertname,
        slo=row.slo,
        group=row.group_labels,
        state=state,
        facts=Facts.from_json(row.facts),
        evaluated_at=row.evaluated_at,
    )


def _values(record: Record) -> dict[str, Any]:
    state = record.state
    return {
        "fingerprint": record.fingerprint,
        "alertname": record.alertname,
        "slo": record.slo,
        "group_labels": dict(record.group),
        "condition": state.condition,
        "since": state.since,
        "severity": state.severity,
        "tier": state.tier,
        "episode": state.episode,
        "fired_at": state.fired_at,
        "resolved_at": state.resolved_at,
        "hold_for_s": state.hold_for.total_seconds(),
        "keep_for_s": state.keep_for.total_seconds(),
        "easing_since": state.easing_since,
        "frozen_since": state.frozen_since,
        "frozen_reason": state.frozen_reason,
        "facts": record.facts.to_json(),
        "evaluated_at": record.evaluated_at,
    }
