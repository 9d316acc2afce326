"""Whether one receiver is told about one group now, and why; pure.

The decision compares what fires with what the receiver was told, so it may be taken again at any
time: after a restart, or when an undelivered message was withdrawn, the same rules find what is
still missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from alerts.model import Severity

Severities = Mapping[str, Severity]  # by episode


class Reason(StrEnum):
    """Why a notification goes out, in Alertmanager's words where it has them."""

    FIRST = "first notification"
    NEW = "new alerts added"
    RAISED = "severity raised"
    LOWERED = "severity lowered"
    SOME_RESOLVED = "some alerts resolved"
    ALL_RESOLVED = "all alerts resolved"
    REPEAT = "repeat interval elapsed"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class Told:
    """What a receiver knows about a group.

    `firing` was delivered. `maybe` was tried and may have arrived. What was refused (`refused`
    when it fired, `refused_ends` when it ended) is not said again until the repeat interval.
    """

    firing: Severities = field(default_factory=dict)
    maybe: Severities = field(default_factory=dict)
    refused: Severities = field(default_factory=dict)
    refused_ends: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()
    at: datetime | None = None

    def believing(self, attempted: Severities) -> Told:
        """Count what was sent, outcome unknown, as possibly heard."""
        return replace(self, maybe={**self.maybe, **attempted})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A firing alert on its way to a receiver."""

    severity: Severity
    fired_at: datetime
    is_muted: bool
    is_acked: bool


@dataclass(frozen=True, slots=True)
class Pace:
    group_wait: timedelta
    group_interval: timedelta
    repeat_interval: timedelta
    send_resolved: bool


@dataclass(frozen=True, slots=True)
class Decision:
    reason: Reason
    firing: Severities
    resolved: tuple[str, ...]


def decide(
    candidates: Mapping[str, Candidate],
    told: Told,
    pace: Pace,
    now: datetime,
    lately: Collection[str] = (),
) -> Decision | None:
    """Compare what fires with what was told.

    A muted alert is not announced, but one that was announced stays listed until it really ends.
    `lately` are resolved episodes that a receiver without memory should hear of again.
    """
    known = {**told.maybe, **told.firing}
    spoken = {**told.firing, **told.refused}
    firing = {e: c.severity for e, c in candidates.items() if not c.is_muted or e in known}
    gone = sorted(known.keys() - candidates.keys())
    again = sorted(e for e in told.resolved if e in lately and e not in candidates)
    resolved = tuple(dict.fromkeys([*gone, *again])) if pace.send_resolved else ()
    stale = told.at is not None and now - told.at >= pace.repeat_interval
    has_ended = bool(set(gone) - set(told.refused_ends)) or (bool(gone) and stale)
    if firing:
        reasons = _news(candidates, spoken, told, pace, now, stale=stale, has_ended=has_ended)
    else:
        reasons = _ends(has_ended=has_ended, again=bool(again) and stale)
    reason = next(reasons, None)
    return Decision(reason, firing, resolved) if reason else None


def _ends(*, has_ended: bool, again: bool) -> Iterator[Reason]:
    if has_ended:
        yield Reason.ALL_RESOLVED
    if again:
        yield Reason.REPEAT


def _news(
    candidates: Mapping[str, Candidate],
    spoken: Severities,
    told: Told,
    pace: Pace,
    now: datetime,
    *,
    stale: bool,
    has_ended: bool,
) -> Iterator[Reason]:
    """Yield what there is to say while something fires, the most important first."""
    spaced = told.at is None or now - told.at >= pace.group_interval
    audible = {e: c for e, c in candidates.items() if not c.is_muted}
    new = {e: c for e, c in audible.items() if e not in spoken}
    if new and not told.firing:
        waited = now - min(c.fired_at for c in new.values()) >= pace.group_wait
        if waited or any(e in told.maybe for e in new):
            yield Reason.FIRST
    elif new and (spaced or _loudest(c.severity for c in new.values()) > _loudest(spoken.values())):
        yield Reason.NEW
    moved = [c.severity.rank - spoken[e].rank for e, c in audible.items() if e in spoken]
    if any(change > 0 for change in moved):
        yield Reason.RAISED
    if has_ended and spaced and pace.send_resolved:
        yield Reason.SOME_RESOLVED
    if spaced and any(change < 0 for change in moved):
        yield Reason.LOWERED
    if stale and any(e in spoken and not c.is_acked for e, c in audible.items()):
        yield Reason.REPEAT


def _loudest(severities: Iterable[Severity]) -> int:
    return max((severity.rank for severity in severities), default=0)
