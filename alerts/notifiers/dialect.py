"""What every notifier does: render once, seal each attempt, judge the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from alerts.notice import Notice
from alerts.outcome import Answer, Outcome


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP POST, complete."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class Notifier(Protocol):
    """One receiver's dialect.

    `render` makes the bytes kept in the outbox, without secrets. `seal` adds, per attempt, what
    must not be stored (keys) or must be new (timestamp, signature).
    """

    def render(self, notice: Notice) -> bytes: ...
    def seal(self, body: bytes, message_id: str, at: datetime) -> Request: ...
    def classify(self, answer: Answer, now: datetime) -> Outcome: ...
    def secrets(self) -> tuple[str, ...]:
        """Texts that may never appear in an error, a log or an answer of the API."""
        ...
