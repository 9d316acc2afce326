"""Alertmanager's webhook, version 4, with Standard Webhooks signature headers.

Body: alertmanager notify/webhook/webhook.go and template/template.go. The headers are additive:
receivers that know only Alertmanager ignore them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from alerts import outcome
from alerts.notice import Item, Notice
from alerts.notifiers.dialect import Request
from alerts.outcome import Answer, Outcome
from alerts.signing import signature_headers
from base.durations import format_instant

NO_END = "0001-01-01T00:00:00Z"  # Go's zero time: still firing
MAX_ITEMS = 100


@dataclass(frozen=True, slots=True)
class Webhook:
    url: str
    keys: tuple[bytes, ...] = ()
    key_texts: tuple[str, ...] = ()
    authorization: str | None = None

    def render(self, notice: Notice) -> bytes:
        alerts = [_alert(item) for item in notice.items[:MAX_ITEMS]]
        body = {
            "version": "4",
            "groupKey": notice.group_key,
            "truncatedAlerts": max(0, len(notice.items) - MAX_ITEMS),
            "status": "firing" if notice.is_firing else "resolved",
            "receiver": notice.receiver,
            "groupLabels": dict(notice.group_labels),
            "commonLabels": _common([alert["labels"] for alert in alerts]),
            "commonAnnotations": _common([alert["annotations"] for alert in alerts]),
            "externalURL": notice.external_url,
            "alerts": alerts,
            "notification_reason": str(notice.reason),
        }
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()

    def seal(self, body: bytes, message_id: str, at: datetime) -> Request:
        headers = {"content-type": "application/json"}
        if self.keys:
            headers |= signature_headers(self.keys, message_id, at, body)
        else:
            headers["webhook-id"] = message_id
        if self.authorization:
            headers["authorization"] = self.authorization
        return Request(self.url, headers, body)

    def classify(self, answer: Answer, now: datetime) -> Outcome:
        return outcome.classify(answer, now)

    def secrets(self) -> tuple[str, ...]:
        bare = tuple(text.removeprefix("whsec_") for text in self.key_texts)
        return (*self.key_texts, *bare, self.authorization or "", *url_secrets(self.url))


def url_secrets(url: str) -> tuple[str, ...]:
    """List the parts of a URL that may be a token: all but scheme, host and port."""
    parts = urlsplit(url)
    tail = url.split(parts.netloc, 1)[-1] if parts.netloc else url
    credentials = parts.netloc.rpartition("@")[0]
    longest = max(parts.path.split("/"), key=len, default="")
    return tuple(text for text in (url, tail, parts.query, credentials, longest) if len(text) >= 8)


def _alert(item: Item) -> dict[str, Any]:
    return {
        "status": item.status,
        "labels": {**item.labels, "severity": str(item.severity)},
        "annotations": dict(item.annotations),
        "startsAt": format_instant(item.starts_at),
        "endsAt": format_instant(item.ends_at) if item.ends_at is not None else NO_END,
        "generatorURL": item.url,
        "fingerprint": item.fingerprint,
    }


def _common(pairs: list[dict[str, str]]) -> dict[str, str]:
    if not pairs:
        return {}
    first, *rest = pairs
    return {k: v for k, v in first.items() if all(other.get(k) == v for other in rest)}
