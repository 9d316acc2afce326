"""The `alerts:` section of tokenweir.yaml."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from alerts.model import Severity
from base.settings import Duration, Section

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"


class ReceiverSettings(Section):
    """One place that notifications go to.

    A webhook's secret is `whsec_<base64 of 24 to 64 random bytes>` (Standard Webhooks). Its file
    may hold two lines: both sign while a secret is being rotated.
    """

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9_.-]+$")
    type: Literal["webhook", "pagerduty", "alertmanager"]
    url: str | None = None
    secret: SecretStr | None = None
    secret_file: Path | None = None
    routing_key: SecretStr | None = None
    routing_key_file: Path | None = None
    authorization: SecretStr | None = None
    authorization_file: Path | None = None
    send_resolved: bool = True
    severities: tuple[Severity, ...] = (Severity.PAGE, Severity.TICKET)
    repeat_interval: Duration | None = None

    @model_validator(mode="after")
    def _complete(self) -> ReceiverSettings:
        for name in ("secret", "routing_key", "authorization"):
            if getattr(self, name) and getattr(self, f"{name}_file"):
                raise ValueError(f"receiver {self.name!r}: give {name} or {name}_file, not both")
        if self.type == "pagerduty" and not (self.routing_key or self.routing_key_file):
            raise ValueError(
                f"receiver {self.name!r}: pagerduty needs routing_key or routing_key_file"
            )
        if self.type != "pagerduty" and not self.url:
            raise ValueError(f"receiver {self.name!r}: type {self.type} needs a url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"receiver {self.name!r}: url must start with http:// or https://")
        return self


class WatchdogSettings(Section):
    """Where a heartbeat goes for as long as ticking and delivering both work."""

    url: str
    interval: Duration = timedelta(minutes=1)
    secret: SecretStr | None = None
    secret_file: Path | None = None


class AlertSettings(Section):
    """When people are told, and where.

    `keep_firing_for` unset means: the hold of the tier that fired, 30 minutes for an SLO window of
    30 days or more, and at least its short window.
    `group_wait` collects the groups of one SLO before the first notification; `group_interval`
    spaces news about an incident that is already open, except a louder severity or its end.
    """

    receivers: tuple[ReceiverSettings, ...] = ()
    external_url: str = ""  # unset: where this instance serves its pages
    group_wait: Duration = timedelta(seconds=5)
    group_interval: Duration = timedelta(minutes=1)
    repeat_interval: Duration = timedelta(hours=4)
    pending_for: Duration = timedelta(0)
    keep_firing_for: Duration | None = None
    max_age: Duration = timedelta(hours=24)
    watchdog: WatchdogSettings | None = None

    @model_validator(mode="after")
    def _named_once(self) -> AlertSettings:
        names = [receiver.name for receiver in self.receivers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"receiver name {twice[0]!r} is used twice")
        if "watchdog" in names:
            raise ValueError("receiver name 'watchdog' is reserved for the heartbeat")
        return self
