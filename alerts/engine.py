"""One tick: verdicts move alerts, and what people should hear goes into the outbox, atomically."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine

from alerts import book, endpoints, outbox, watchdog
from alerts.book import Record
from alerts.compose import ActionNotes, no_notes
from alerts.facts import Facts
from alerts.machine import step, withdraw
from alerts.metrics import EDGES, FROZEN, LAST_TICK, LONGEST_WAIT, OPEN, TICK_SECONDS
from alerts.model import AlertState, Burning, Clear, Edge, Severity, Turn, Unknown
from alerts.notify import RECEIVER_ALERT, Notifications
from alerts.receivers import WATCHDOG, Receiver, pagers
from alerts.settings import AlertSettings
from alerts.subject import Subject, subject_of
from base.clock import Clock
from base.db import transaction
from base.selfmon import Log
from slo.verdict import Verdict

_log = Log("alerts.engine")

NO_VERDICT = "no verdict in this tick"


class AlertEngine:
    """Runs the alerts of one control database. One at a time ticks (the leader)."""

    def __init__(
        self,
        db: Engine,
        receivers: Sequence[Receiver],
        settings: AlertSettings,
        clock: Clock,
        action_notes: ActionNotes = no_notes,
    ) -> None:
        self._db = db
        self._settings = settings
        self._clock = clock
        self._receivers = tuple(receivers)
        self._watchdog = next((r for r in receivers if r.name == WATCHDOG), None)
        self._notifications = Notifications(pagers(receivers), settings, clock, action_notes)
        self._is_registered = False

    def tick(
        self,
        verdicts: Sequence[Verdict],
        now: datetime,
        configured: Collection[str] | None = None,
    ) -> list[Edge]:
        """Move every alert and enqueue what follows, in one transaction.

        An alert without a verdict is frozen. `configured` names the SLOs that exist: alerts of
        others end, because nobody will ever measure them again.
        """
        with TICK_SECONDS.time(), transaction(self._db) as connection:
            if not self._is_registered:
                endpoints.register(connection, self._receivers)
                outbox.abandon(connection, [r.name for r in self._receivers], now)
            before = book.load(connection)
            subjects = self._subjects(connection, verdicts)
            after, edges = _move(before, subjects, configured, now)
            book.save(connection, before, after)
            book.chronicle(connection, edges, after)
            self._notifications.reconcile(connection, after.values(), now)
            if self._watchdog is not None:
                watchdog.beat(connection, self._watchdog, self._settings, self._clock, now)
            oldest = outbox.oldest_due(connection)
        self._is_registered = True
        _observe(edges, after, now)
        LONGEST_WAIT.set((now - oldest).total_seconds() if oldest else 0)
        return edges

    def close(self, episode: str, by: str, now: datetime) -> bool:
        """End an episode by hand; its resolve goes out at the next tick. False: it is not open."""
        with transaction(self._db) as connection:
            before = book.load(connection)
            found = [r for r in before.values() if r.state.episode == episode and r.state.is_open]
            if not found:
                return False
            record = found[0]
            state, turns = withdraw(record.state, now)
            after = {**before, record.fingerprint: replace(record, state=state, evaluated_at=now)}
            book.save(connection, before, after)
            edges = [_edge(turn, record, state, now, f"closed by {by}") for turn in turns]
            book.chronicle(connection, edges, after)
            return True

    def _subjects(self, connection: Connection, verdicts: Sequence[Verdict]) -> dict[str, Subject]:
        mine = (subject_of(verdict, self._settings) for verdict in verdicts)
        found = {subject.fingerprint: subject for subject in mine}
        if len(found) != len(verdicts):
            _log.warning("verdicts_collide", verdicts=len(verdicts), alerts=len(found))
        own = _receiver_subjects(endpoints.load(connection))
        return found | {subject.fingerprint: subject for subject in own}


def _move(
    before: Mapping[str, Record],
    subjects: Mapping[str, Subject],
    configured: Collection[str] | None,
    now: datetime,
) -> tuple[dict[str, Record], list[Edge]]:
    after: dict[str, Record] = {}
    edges: list[Edge] = []
    for key, subject in subjects.items():
        record = before.get(key) or _blank(key, subject, now)
        state, turns = step(record.state, subject.reading, now, fingerprint=key)
        if not turns and state == record.state == AlertState():
            continue
        facts = _merged(record.facts, subject, state)
        after[key] = replace(record, state=state, facts=facts, evaluated_at=now)
        reason = subject.reading.reason if isinstance(subject.reading, Unknown) else ""
        edges += [_edge(turn, record, state, now, reason) for turn in turns]
    for key, record in before.items():
        if key in subjects:
            continue
        if not record.slo or (configured is not None and record.slo not in configured):
            state, turns = withdraw(record.state, now)
            reason = "what it was about is gone"
        else:
            state, turns = step(record.state, Unknown(NO_VERDICT), now, fingerprint=key)
            reason = NO_VERDICT
        after[key] = replace(record, state=state)
        edges += [_edge(turn, record, state, now, reason) for turn in turns]
    return after, edges


def _merged(old: Facts, subject: Subject, state: AlertState) -> Facts:
    """Keep what was last measured: a frozen alert's facts stay, a clearing one's burn stays."""
    new = subject.facts
    match subject.reading:
        case Unknown():
            return old
        case Clear() if state.episode is not None:
            return replace(
                new,
                text=new.text or old.text,
                burn=old.burn,
                burn_window=old.burn_window,
                factor=old.factor,
                cost=old.cost or new.cost,
                bad_reasons=new.bad_reasons or old.bad_reasons,
            )
        case _:
            return new


def _receiver_subjects(health: Mapping[str, endpoints.Endpoint]) -> Iterator[Subject]:
    """Watch our own receivers: a broken one is an alert to the others."""
    for endpoint in health.values():
        is_broken = endpoint.broken_since is not None
        at_once = timedelta(0)
        reading = Burning(Severity.TICKET, "delivery", at_once, at_once) if is_broken else Clear()
        said = f"Receiver {endpoint.receiver} cannot be reached: {endpoint.broken_reason}"
        group = {"receiver": endpoint.receiver}
        yield Subject(RECEIVER_ALERT, "", group, reading, Facts(text=said))


def _blank(key: str, subject: Subject, now: datetime) -> Record:
    return Record(
        key, subject.alertname, subject.slo, subject.group, AlertState(), subject.facts, now
    )


def _edge(turn: Turn, record: Record, state: AlertState, now: datetime, reason: str) -> Edge:
    return Edge(
        turn=turn,
        slo=record.slo,
        group=record.group,
        fingerprint=record.fingerprint,
        episode=state.episode or record.state.episode,
        severity=state.severity or record.state.severity,
        at=now,
        reason=reason,
    )


def _observe(edges: Sequence[Edge], after: Mapping[str, Record], now: datetime) -> None:
    for edge in edges:
        EDGES.labels(turn=str(edge.turn)).inc()
        _log.info(
            "alert",
            turn=str(edge.turn),
            slo=edge.slo,
            group=dict(edge.group),
            severity=edge.severity,
            episode=edge.episode,
            reason=edge.reason,
        )
    states = [record.state for record in after.values()]
    for severity in Severity:
        OPEN.labels(severity=str(severity)).set(
            sum(state.is_open and state.severity is severity for state in states)
        )
    FROZEN.set(sum(state.is_frozen for state in states))
    LAST_TICK.set(now.timestamp())
