"""A notification before it takes a receiver's form."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from alerts.decide import Reason
from alerts.model import Severity

_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True)
class Item:
    """One alert inside a notification.

    `labels` carry no severity: it may change while the alert lives. `told_severity` is what the
    receiver heard last, None if this alert is news to it.
    """

    episode: str
    fingerprint: str
    status: Literal["firing", "resolved"]
    severity: Severity
    told_severity: Severity | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: datetime
    ends_at: datetime | None
    url: str


@dataclass(frozen=True, slots=True)
class Notice:
    """What one receiver is told about one group. `group_key` is opaque and stable."""

    receiver: str
    group_key: str
    group_labels: Mapping[str, str]
    reason: Reason
    items: tuple[Item, ...]
    external_url: str
    at: datetime

    @property
    def is_firing(self) -> bool:
        return any(item.status == "firing" for item in self.items)

    @property
    def severity(self) -> Severity:
        """The loudest of what fires, or of what has ended."""
        firing = [item.severity for item in self.items if item.status == "firing"]
        return max(
            firing or [item.severity for item in self.items],
            key=lambda severity: severity.rank,
            default=Severity.TICKET,
        )

    @property
    def dedup_key(self) -> str:
        return dedup_key(self.group_key)


def group_key(group_labels: Mapping[str, str]) -> str:
    """Write a group as Alertmanager does: {}:{slo="chat-ttft"}."""
    pairs = (f"{name}={json.dumps(value)}" for name, value in sorted(group_labels.items()))
    return "{}:{" + ", ".join(pairs) + "}"


def dedup_key(key: str) -> str:
    """Name a group by 64 hex digits, the same for every receiver and every episode."""
    return hashlib.sha256(key.encode()).hexdigest()


def safe_label(name: str) -> str:
    """Rewrite a label name so that every Alertmanager takes it: gen_ai_request_model."""
    safe = _UNSAFE.sub("_", name)
    return f"_{safe}" if safe[:1].isdigit() or not safe else safe
