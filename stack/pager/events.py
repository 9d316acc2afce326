"""Reads the two kinds of events a pager gets, refusing what the real receivers would refuse."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from base.errors import BadInput


@dataclass(frozen=True, slots=True)
class Page:
    """What a person on call would see. `key` tells which pages are about the same thing."""

    kind: Literal["webhook", "pagerduty"]
    status: str
    key: str
    severity: str
    summary: str
    body: Mapping[str, Any]

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "status": self.status,
            "key": self.key,
            "severity": self.severity,
            "summary": self.summary,
            "body": self.body,
        }


class _Alert(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    status: Literal["firing", "resolved"]
    labels: dict[str, str]
    annotations: dict[str, str]
    startsAt: AwareDatetime  # noqa: N815  Alertmanager's spelling
    endsAt: AwareDatetime  # noqa: N815
    fingerprint: str = Field(pattern="^[0-9a-f]{16}$")


class _Webhook(BaseModel):
    """Alertmanager's webhook, version 4; newer fields are optional."""

    model_config = ConfigDict(extra="allow", frozen=True)
    version: Literal["4"]
    groupKey: str  # noqa: N815
    status: Literal["firing", "resolved"]
    receiver: str
    groupLabels: dict[str, str]  # noqa: N815
    commonLabels: dict[str, str]  # noqa: N815
    commonAnnotations: dict[str, str]  # noqa: N815
    externalURL: str  # noqa: N815
    alerts: list[_Alert] = Field(min_length=1)


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    summary: str = Field(min_length=1, max_length=1024)
    source: str = Field(min_length=1)
    severity: Literal["critical", "error", "warning", "info"]
    timestamp: AwareDatetime | None = None
    component: str | None = None
    group: str | None = None
    class_: str | None = Field(default=None, alias="class")
    custom_details: Any = None


class _Event(BaseModel):
    """PagerDuty's Events API v2."""

    model_config = ConfigDict(extra="allow", frozen=True)
    routing_key: str = Field(min_length=32, max_length=32)
    event_action: Literal["trigger", "acknowledge", "resolve"]
    dedup_key: str | None = Field(default=None, max_length=255)
    payload: _Payload | None = None


def from_alertmanager(body: Mapping[str, Any]) -> Page:
    """Read a webhook of version 4. Raises BadInput."""
    try:
        hook = _Webhook.model_validate(body)
    except ValidationError as error:
        raise BadInput(f"not an Alertmanager webhook: {_briefly(error)}") from error
    summary = hook.commonAnnotations.get("summary") or hook.alerts[0].annotations.get("summary")
    return Page(
        kind="webhook",
        status=hook.status,
        key=hook.groupKey,
        severity=hook.commonLabels.get("severity", ""),
        summary=summary or hook.commonLabels.get("alertname", ""),
        body=body,
    )


def from_pagerduty(body: Mapping[str, Any]) -> Page:
    """Read an event. Raises BadInput; the routing key, which is a secret, is not kept."""
    try:
        event = _Event.model_validate(body)
    except ValidationError as error:
        raise BadInput(f"not a PagerDuty event: {_briefly(error)}") from error
    if event.event_action == "trigger" and event.payload is None:
        raise BadInput("payload is required on trigger")
    if event.event_action != "trigger" and not event.dedup_key:
        raise BadInput(f"dedup_key is required on {event.event_action}")
    return Page(
        kind="pagerduty",
        status=event.event_action,
        key=event.dedup_key or secrets.token_hex(16),  # PagerDuty makes one too
        severity=event.payload.severity if event.payload else "",
        summary=event.payload.summary if event.payload else "",
        body={name: value for name, value in body.items() if name != "routing_key"},
    )


def _briefly(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5]
    )
