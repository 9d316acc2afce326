"""Push to an Alertmanager: POST /api/v2/alerts, re-sent before it forgets.

Alertmanager knows an alert by all its labels, severity included: when the severity changes, the
alert under the old label is ended in the same push.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from alerts import outcome
from alerts.model import Severity
from alerts.notice import Item, Notice
from alerts.notifiers.dialect import Request
from alerts.notifiers.webhook import url_secrets
from alerts.outcome import Answer, Outcome
from base.durations import format_instant

MAX_BATCH = 256
_PATH = "/api/v2/alerts"


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """`resend` is how often a firing alert is pushed; it lives four times that without a push."""

    url: str
    resend: timedelta
    authorization: str | None = None

    def render(self, notice: Notice) -> bytes:
        lives_until = notice.at + 4 * self.resend
        alerts = [alert for item in notice.items for alert in _alerts(item, notice, lives_until)]
        return json.dumps(alerts[:MAX_BATCH], separators=(",", ":"), ensure_ascii=False).encode()

    def seal(self, body: bytes, message_id: str, at: datetime) -> Request:  # noqa: ARG002
        headers = {"content-type": "application/json", "x-request-id": message_id}
        if self.authorization:
            headers["authorization"] = self.authorization
        base = self.url.rstrip("/")
        return Request(base if base.endswith(_PATH) else base + _PATH, headers, body)

    def classify(self, answer: Answer, now: datetime) -> Outcome:
        return outcome.classify(answer, now)

    def secrets(self) -> tuple[str, ...]:
        return (self.authorization or "", *url_secrets(self.url))


def _alerts(item: Item, notice: Notice, lives_until: datetime) -> Iterator[dict[str, Any]]:
    before = item.told_severity
    if item.status == "firing" and before is not None and before is not item.severity:
        yield _alert(item, before, max(notice.at, item.starts_at))
    ends_at = item.ends_at if item.ends_at is not None else lives_until
    yield _alert(item, item.severity, max(ends_at, item.starts_at))


def _alert(item: Item, severity: Severity, ends_at: datetime) -> dict[str, Any]:
    return {
        "labels": {**item.labels, "severity": str(severity)},
        "annotations": dict(item.annotations),
        "startsAt": format_instant(item.starts_at),
        "endsAt": format_instant(ends_at),
        "generatorURL": item.url,
    }
