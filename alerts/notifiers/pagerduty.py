"""PagerDuty Events API v2: one incident per group, opened and resolved by the same dedup_key.

The routing key is added when an attempt is sealed, so that it is never stored in the outbox.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from alerts import outcome, wording
from alerts.model import Severity
from alerts.notice import Item, Notice
from alerts.notifiers.dialect import Request
from alerts.notifiers.webhook import url_secrets
from alerts.outcome import Answer, Fate, Outcome
from alerts.settings import PAGERDUTY_URL
from base.durations import format_instant

MAX_BODY = 512_000
MAX_SUMMARY = 1024
MAX_ITEMS = 50
AT_LEAST = timedelta(seconds=30)  # after 429; about 120 calls a minute are allowed per key

_SEVERITY = {Severity.PAGE: "critical", Severity.TICKET: "warning"}


@dataclass(frozen=True, slots=True)
class PagerDuty:
    routing_key: str
    url: str = PAGERDUTY_URL

    def render(self, notice: Notice) -> bytes:
        body = _trigger(notice) if notice.is_firing else _resolve(notice)
        # Room is left for the routing key.
        rendered = _dump(body)
        if len(rendered) > MAX_BODY - 100 and notice.is_firing:
            body["payload"]["custom_details"] = {"error": "the details were too large and left out"}
            rendered = _dump(body)
        return rendered

    def seal(self, body: bytes, message_id: str, at: datetime) -> Request:  # noqa: ARG002
        sealed = b'{"routing_key":' + json.dumps(self.routing_key).encode() + b"," + body[1:]
        headers = {"content-type": "application/json", "x-request-id": message_id}
        return Request(self.url, headers, sealed)

    def classify(self, answer: Answer, now: datetime) -> Outcome:
        judged = outcome.classify(answer, now)
        if judged.fate is Fate.RETRY and answer.status == 429:
            return replace(judged, after=max(judged.after or AT_LEAST, AT_LEAST))
        return judged

    def secrets(self) -> tuple[str, ...]:
        extra = url_secrets(self.url) if self.url != PAGERDUTY_URL else ()
        return (self.routing_key, *extra)


def _trigger(notice: Notice) -> dict[str, Any]:
    firing = [item for item in notice.items if item.status == "firing"]
    first = max(firing, key=lambda item: item.severity.rank)
    summary = wording.title(
        notice.group_labels, len(firing), first.annotations.get("summary", first.episode)
    )
    return {
        "event_action": "trigger",
        "dedup_key": notice.dedup_key,
        "client": "tokenweir",
        "client_url": first.url,
        "links": [{"href": item.url, "text": _name(item)} for item in firing[:MAX_ITEMS]],
        "payload": {
            "summary": summary[:MAX_SUMMARY],
            "source": notice.external_url,
            "severity": _SEVERITY[notice.severity],
            "timestamp": format_instant(min(item.starts_at for item in firing)),
            "component": first.labels.get("slo", "tokenweir"),
            "class": first.labels.get("alertname", ""),
            "custom_details": {
                "reason": str(notice.reason),
                "firing": _lines(firing),
                "resolved": _lines([item for item in notice.items if item.status == "resolved"]),
                "num_firing": str(len(firing)),
                **{k: v for k, v in first.annotations.items() if k != "summary"},
            },
        },
    }


def _resolve(notice: Notice) -> dict[str, Any]:
    return {"event_action": "resolve", "dedup_key": notice.dedup_key}


def _lines(items: list[Item]) -> str:
    lines = [item.annotations.get("summary", _name(item)) for item in items[:MAX_ITEMS]]
    if len(items) > MAX_ITEMS:
        lines.append(f"and {len(items) - MAX_ITEMS} more")
    return "\n".join(lines)


def _name(item: Item) -> str:
    hidden = {"alertname", "slo"}
    group = ", ".join(f"{k}={v}" for k, v in sorted(item.labels.items()) if k not in hidden)
    name = item.labels.get("slo") or item.labels.get("alertname", "")
    return f"{name} {group}".strip()


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
