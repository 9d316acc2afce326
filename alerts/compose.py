"""Turn alerts and past episodes into the items of a notification."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from alerts import wording
from alerts.book import Episode, Record
from alerts.decide import Decision, Told
from alerts.model import Severity
from alerts.notice import Item, Notice

# What the control plane did about an SLO and group, in words, newest first. Called inside the
# tick's transaction: it reads through that connection, a second one would wait for it.
ActionNotes = Callable[[Connection, str, Mapping[str, str]], Sequence[str]]


def no_notes(_connection: Connection, _slo: str, _group: Mapping[str, str]) -> Sequence[str]:
    return ()


def labels_of(alert: Record | Episode) -> dict[str, str]:
    """Label an alert as receivers see it, without its severity."""
    return wording.labels(alert.alertname, alert.slo, alert.group, alert.facts)


def group_labels(alert: Record | Episode) -> dict[str, str]:
    """Group by SLO; alerts about tokenweir itself by name."""
    return {"slo": alert.slo} if alert.slo else {"alertname": alert.alertname}


@dataclass(frozen=True, slots=True)
class Composer:
    """Composes the notices of one tick; what was done is looked up once per alert."""

    connection: Connection
    action_notes: ActionNotes
    external_url: str
    now: datetime
    _notes: dict[str, Sequence[str]] = field(default_factory=dict)

    def notice(
        self,
        receiver: str,
        key: str,
        decision: Decision,
        told: Told,
        firing: Sequence[Record],
        ended: Sequence[Episode],
    ) -> Notice:
        """Compose what one receiver is told: the loudest and the newest first, ended ones last."""
        items = [self._firing(record, told) for record in firing]
        items += [self._ended(episode, told) for episode in ended]
        items.sort(key=_order)
        known: list[Record | Episode] = [*firing, *ended]
        return Notice(
            receiver=receiver,
            group_key=key,
            group_labels=group_labels(known[0]) if known else {},
            reason=decision.reason,
            items=tuple(items),
            external_url=self.external_url,
            at=self.now,
        )

    def _firing(self, record: Record, told: Told) -> Item:
        state = record.state
        episode, severity = state.episode or "", state.severity or Severity.TICKET
        said = wording.describe(
            record.slo, record.group, severity, record.facts, self._done(record)
        )
        if state.is_frozen:
            said["frozen"] = state.frozen_reason
        return Item(
            episode=episode,
            fingerprint=record.fingerprint,
            status="firing",
            severity=severity,
            told_severity=told.firing.get(episode) or told.maybe.get(episode),
            labels=labels_of(record),
            annotations=said,
            starts_at=state.fired_at or self.now,
            ends_at=None,
            url=wording.dashboard_url(self.external_url, record.slo, record.group),
        )

    def _ended(self, episode: Episode, told: Told) -> Item:
        """Compose an end. An episode that only became too quiet for this receiver ends now."""
        heard = told.firing.get(episode.episode) or told.maybe.get(episode.episode)
        ended_at = episode.resolved_at or self.now
        return Item(
            episode=episode.episode,
            fingerprint=episode.fingerprint,
            status="resolved",
            severity=heard or episode.severity,
            told_severity=heard,
            labels=labels_of(episode),
            annotations=wording.describe(
                episode.slo,
                episode.group,
                heard or episode.severity,
                episode.facts,
                self._done(episode),
                resolved_at=ended_at,
            ),
            starts_at=episode.fired_at,
            ends_at=ended_at,
            url=wording.dashboard_url(self.external_url, episode.slo, episode.group),
        )

    def _done(self, alert: Record | Episode) -> Sequence[str]:
        if not alert.slo:
            return ()
        if alert.fingerprint not in self._notes:
            notes = self.action_notes(self.connection, alert.slo, alert.group)
            self._notes[alert.fingerprint] = notes
        return self._notes[alert.fingerprint]


def _order(item: Item) -> tuple[bool, int, bool, str]:
    return (
        item.status == "resolved",
        -item.severity.rank,
        item.told_severity is not None,
        item.fingerprint,
    )
