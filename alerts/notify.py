"""Bring the outbox in line with what fires: for each receiver and group, decide, render, enqueue.

Runs inside the tick's transaction. It compares states rather than following events, so whatever a
crash or a dead receiver left undone is found again at the next tick.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from alerts import acks, book, endpoints, ledger, outbox, silences
from alerts.book import Record
from alerts.compose import ActionNotes, Composer, group_labels, labels_of
from alerts.decide import Candidate, Decision, Pace, Told, decide
from alerts.metrics import DROPPED, ENQUEUED
from alerts.model import Condition
from alerts.notice import group_key
from alerts.outbox import Live, Message
from alerts.receivers import Receiver
from alerts.settings import AlertSettings
from base.clock import Clock
from base.ids import new_id

RECEIVER_ALERT = "TokenweirReceiverFailing"  # told to the others, never to the failing one


@dataclass(frozen=True, slots=True)
class Notifications:
    """Everything about notifying that does not change between ticks."""

    receivers: Sequence[Receiver]
    settings: AlertSettings
    clock: Clock
    action_notes: ActionNotes

    def reconcile(
        self, connection: Connection, records: Iterable[Record], now: datetime
    ) -> list[Message]:
        """Enqueue what each receiver should hear; withdraw what is no longer so."""
        moving = outbox.live(connection, now)  # first: it locks them against the workers
        round_ = _Round(
            rules=self,
            connection=connection,
            now=now,
            composer=Composer(connection, self.action_notes, self.settings.external_url, now),
            groups=_by_group(records),
            moving=moving,
            told=ledger.load(connection),
            health=endpoints.load(connection),
            silenced=silences.active(connection, now),
            acked=frozenset(acks.holding(connection, now)),
        )
        attended = (round_.attend(r, key) for r in self.receivers for key in round_.group_keys())
        return [message for message in attended if message is not None]


@dataclass(frozen=True, slots=True)
class _Group:
    open: Mapping[str, Record]  # by episode
    resolved: frozenset[str]  # episodes that ended a moment ago


_NOBODY = _Group({}, frozenset())


@dataclass(frozen=True, slots=True)
class _Round:
    """One tick's view of the database."""

    rules: Notifications
    connection: Connection
    now: datetime
    composer: Composer
    groups: Mapping[str, _Group]
    moving: Mapping[ledger.Key, Live]
    told: Mapping[ledger.Key, Told]
    health: Mapping[str, endpoints.Endpoint]
    silenced: Sequence[silences.Silence]
    acked: Collection[str]

    def group_keys(self) -> list[str]:
        heard = {key for (_, key), told in self.told.items() if told.firing or told.maybe}
        return sorted({*self.groups, *heard, *(key for _, key in self.moving)})

    def attend(self, receiver: Receiver, key: str) -> Message | None:
        """Bring one receiver up to date about one group."""
        health = self.health.get(receiver.name)
        live = self.moving.get((receiver.name, key))
        if (health is not None and health.is_disabled) or (live is not None and live.is_held):
            return None  # a held one is decided again once its outcome is known
        told = self.told.get((receiver.name, key), Told())
        if live is not None and live.maybe_heard:
            told = told.believing(live.firing)
        group = self.groups.get(key, _NOBODY)
        decision = self._decide(receiver, group, told)
        if live is not None:
            if decision is not None and self._says_the_same(receiver, live, decision):
                return None
            self._withdraw(live, told, decision)
        if decision is None:
            return None
        if not decision.firing and not receiver.send_resolved:
            ledger.write(self.connection, (receiver.name, key), Told(at=self.now))
            return None
        return self._enqueue(receiver, key, group, told, decision)

    def _decide(self, receiver: Receiver, group: _Group, told: Told) -> Decision | None:
        settings, at_once = self.rules.settings, timedelta(0)
        pace = Pace(
            group_wait=settings.group_wait if receiver.has_memory else at_once,
            group_interval=settings.group_interval if receiver.has_memory else at_once,
            repeat_interval=receiver.repeat_interval,
            send_resolved=receiver.send_resolved,
        )
        lately = frozenset() if receiver.has_memory else group.resolved
        return decide(self._candidates(receiver, group, told), told, pace, self.now, lately)

    def _candidates(self, receiver: Receiver, group: _Group, told: Told) -> dict[str, Candidate]:
        found: dict[str, Candidate] = {}
        for episode, record in group.open.items():
            severity, fired_at = record.state.severity, record.state.fired_at
            if severity is None or fired_at is None or severity not in receiver.severities:
                continue
            if record.alertname == RECEIVER_ALERT and record.group["receiver"] == receiver.name:
                continue
            muted = bool(silences.covering(self.silenced, labels_of(record), self.now))
            acked = episode in self.acked
            if not receiver.has_memory:
                # One that must be reminded would take silence for an end.
                muted = muted and episode not in told.firing and episode not in told.maybe
                acked = False
            found[episode] = Candidate(severity, fired_at, muted, acked)
        return found

    def _says_the_same(self, receiver: Receiver, live: Live, decision: Decision) -> bool:
        same = live.firing == decision.firing and live.resolved == decision.resolved
        fresh = self.now - live.created_at < receiver.repeat_interval
        return same and (fresh or not live.firing)

    def _withdraw(self, live: Live, told: Told, decision: Decision | None) -> None:
        why = "newer news" if decision is not None else "nothing left to say"
        outbox.supersede(self.connection, live.id, why, self.now)
        if live.maybe_heard:
            ledger.write(self.connection, (live.receiver, live.group_key), told)
        DROPPED.labels(receiver=live.receiver, reason=why).inc()

    def _enqueue(
        self, receiver: Receiver, key: str, group: _Group, told: Told, decision: Decision
    ) -> Message:
        ended = book.find_episodes(self.connection, decision.resolved)
        notice = self.composer.notice(
            receiver.name,
            key,
            decision,
            told,
            [group.open[episode] for episode in decision.firing if episode in group.open],
            list(ended.values()),
        )
        message = Message(
            id=new_id(self.rules.clock),
            receiver=receiver.name,
            group_key=key,
            reason=decision.reason,
            firing=decision.firing,
            resolved=decision.resolved,
            body=receiver.notifier.render(notice),
        )
        outbox.put(self.connection, message, self.now)
        ENQUEUED.labels(receiver=receiver.name, reason=str(decision.reason)).inc()
        return message


def _by_group(records: Iterable[Record]) -> dict[str, _Group]:
    open_: dict[str, dict[str, Record]] = {}
    resolved: dict[str, set[str]] = {}
    for record in records:
        episode = record.state.episode
        if episode is None or record.state.condition is Condition.PENDING:
            continue
        key = group_key(group_labels(record))
        if record.state.is_open:
            open_.setdefault(key, {})[episode] = record
        else:
            resolved.setdefault(key, set()).add(episode)
    return {
        key: _Group(open_.get(key, {}), frozenset(resolved.get(key, ())))
        for key in open_.keys() | resolved.keys()
    }
