"""What an alert is: its condition, its severity, the readings that move it and the edges it takes.

Four axes are kept apart. The *condition* lives here. Suppression (silences) is judged when a
notification is sent, an acknowledgement belongs to an episode, delivery to the outbox.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from base.ids import ulid


class Severity(StrEnum):
    """How loud: a page wakes somebody, a ticket waits for working hours."""

    TICKET = "ticket"
    PAGE = "page"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {Severity.TICKET: 1, Severity.PAGE: 2}


class Condition(StrEnum):
    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"
    CLEARING = "clearing"  # not burning any more, held for keep_firing_for
    RESOLVED = "resolved"


OPEN = frozenset({Condition.FIRING, Condition.CLEARING})


@dataclass(frozen=True, slots=True)
class Burning:
    """The loudest tier that burns. `hold_for` delays firing, `keep_for` delays the resolve."""

    severity: Severity
    tier: str
    hold_for: timedelta
    keep_for: timedelta


@dataclass(frozen=True, slots=True)
class Clear:
    """Measured, and not burning."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not measured: the source is silent. Holds whatever the alert was doing."""

    reason: str


Reading = Burning | Clear | Unknown


@dataclass(frozen=True, slots=True)
class AlertState:
    """Where one alert (an SLO and a group) stands.

    `since` is when the present condition began. `easing_since` is since when only a quieter tier
    burns. Both are moved forward by the length of a freeze, so silence never counts as calm.
    """

    condition: Condition = Condition.INACTIVE
    since: datetime | None = None
    severity: Severity | None = None
    tier: str = ""
    episode: str | None = None
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    hold_for: timedelta = timedelta(0)
    keep_for: timedelta = timedelta(0)
    easing_since: datetime | None = None
    frozen_since: datetime | None = None
    frozen_reason: str = ""

    @property
    def is_open(self) -> bool:
        return self.condition in OPEN

    @property
    def is_frozen(self) -> bool:
        return self.frozen_since is not None


class Turn(StrEnum):
    """What happened to an alert in one step."""

    PENDING = "pending"
    CALMED = "calmed"  # pending, then clear: nobody was told
    FIRED = "fired"
    RAISED = "raised"  # ticket became page, same episode
    LOWERED = "lowered"
    CLEARING = "clearing"
    RETURNED = "returned"  # burned again while clearing, same episode
    RESOLVED = "resolved"
    FROZE = "froze"
    THAWED = "thawed"


@dataclass(frozen=True, slots=True)
class Edge:
    """One turn of one alert, as others (actuators, timelines) hear of it."""

    turn: Turn
    slo: str
    group: Mapping[str, str]
    fingerprint: str
    episode: str | None
    severity: Severity | None
    at: datetime
    reason: str = ""


def episode_id(fingerprint: str, at: datetime) -> str:
    """Name the run of an alert that began `at`: a ULID that a redone tick makes again."""
    digest = hashlib.sha256(f"{fingerprint}@{at.isoformat()}".encode()).digest()
    return ulid(int(at.timestamp() * 1000), int.from_bytes(digest[:10], "big"))
