"""Receivers as they are used: settings with their secrets read and their dialect chosen."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import assert_never

from pydantic import SecretStr

from alerts.model import Severity
from alerts.notifiers.alertmanager import Alertmanager
from alerts.notifiers.dialect import Notifier
from alerts.notifiers.pagerduty import PagerDuty
from alerts.notifiers.webhook import Webhook
from alerts.settings import PAGERDUTY_URL, AlertSettings, ReceiverSettings
from alerts.signing import decode_secret
from base.errors import ConfigError

WATCHDOG = "watchdog"
RESEND = timedelta(minutes=1)  # to an Alertmanager, which forgets what is not repeated


@dataclass(frozen=True, slots=True)
class Receiver:
    """`has_memory` is False for an Alertmanager: it must be told again and again."""

    name: str
    type: str
    notifier: Notifier
    severities: frozenset[Severity]
    send_resolved: bool
    repeat_interval: timedelta
    config: str  # names this configuration: a changed one gets a fresh start after failures
    has_memory: bool = True


def open_receivers(settings: AlertSettings) -> tuple[Receiver, ...]:
    """Read secrets and build every receiver; the heartbeat's is named `watchdog`."""
    receivers = [_open(receiver, settings) for receiver in settings.receivers]
    watchdog = settings.watchdog
    if watchdog is not None:
        target = ReceiverSettings(
            name=WATCHDOG,
            type="webhook",
            url=watchdog.url,
            secret=watchdog.secret,
            secret_file=watchdog.secret_file,
        )
        receivers.append(_open(target, settings))
    return tuple(receivers)


def pagers(receivers: Sequence[Receiver]) -> tuple[Receiver, ...]:
    """Leave out the heartbeat's receiver, which hears of no alert."""
    return tuple(receiver for receiver in receivers if receiver.name != WATCHDOG)


def _open(settings: ReceiverSettings, all_settings: AlertSettings) -> Receiver:
    has_memory = settings.type != "alertmanager"
    repeat = settings.repeat_interval or (all_settings.repeat_interval if has_memory else RESEND)
    notifier = _notifier(settings, repeat)
    return Receiver(
        name=settings.name,
        type=settings.type,
        notifier=notifier,
        severities=frozenset(settings.severities),
        send_resolved=settings.send_resolved,
        repeat_interval=repeat,
        config=hashlib.sha256(
            repr((settings.type, settings.url, notifier.secrets())).encode()
        ).hexdigest(),
        has_memory=has_memory,
    )


def _notifier(settings: ReceiverSettings, resend: timedelta) -> Notifier:
    authorization = _one(settings, "authorization")
    match settings.type:
        case "webhook":
            texts = _lines(settings, "secret")
            where = f"alerts.receivers[{settings.name}].secret"
            keys = tuple(decode_secret(text, where=where) for text in texts)
            return Webhook(settings.url or "", keys, texts, authorization)
        case "pagerduty":
            return PagerDuty(_one(settings, "routing_key") or "", settings.url or PAGERDUTY_URL)
        case "alertmanager":
            return Alertmanager(settings.url or "", resend, authorization)
        case _:
            assert_never(settings.type)


def _one(settings: ReceiverSettings, name: str) -> str | None:
    lines = _lines(settings, name)
    return lines[0] if lines else None


def _lines(settings: ReceiverSettings, name: str) -> tuple[str, ...]:
    """Read a secret from its setting or, one a line, from the file named beside it."""
    inline: SecretStr | None = getattr(settings, name)
    if inline is not None:
        return (inline.get_secret_value(),)
    path: Path | None = getattr(settings, f"{name}_file")
    if path is None:
        return ()
    where = f"alerts.receivers[{settings.name}].{name}_file"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{where}: cannot read {path}: {error.strerror}") from error
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines:
        raise ConfigError(f"{where}: {path} is empty")
    return lines
