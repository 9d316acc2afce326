"""The dead man's switch: a message that goes out for as long as ticking and delivering work.

It takes the same road as every notification. When it stops arriving, something on that road has.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from alerts import outbox
from alerts.decide import Reason
from alerts.model import Severity
from alerts.notice import Item, Notice, group_key
from alerts.outbox import Message
from alerts.receivers import WATCHDOG, Receiver
from alerts.settings import AlertSettings
from base.clock import Clock
from base.ids import new_id
from base.labels import fingerprint

_LABELS = {"alertname": "Watchdog"}
KEY = group_key(_LABELS)


def beat(
    connection: Connection,
    receiver: Receiver,
    settings: AlertSettings,
    clock: Clock,
    now: datetime,
) -> None:
    """Queue a heartbeat if one is due; it replaces an older one that did not get through."""
    if settings.watchdog is None:
        return
    last = outbox.last_created(connection, receiver.name)
    if last is not None and now - last < settings.watchdog.interval:
        return
    waiting = outbox.live(connection, now, receiver=receiver.name).get((WATCHDOG, KEY))
    if waiting is not None:
        if waiting.is_held:
            return
        outbox.supersede(connection, waiting.id, "a newer heartbeat", now)
    body = receiver.notifier.render(_notice(settings, now))
    message = Message(
        id=new_id(clock),
        receiver=WATCHDOG,
        group_key=KEY,
        reason=Reason.HEARTBEAT,
        firing={},
        resolved=(),
        body=body,
    )
    outbox.put(connection, message, now)


def _notice(settings: AlertSettings, now: datetime) -> Notice:
    said = "tokenweir judges and delivers; when this stops arriving, it does not"
    item = Item(
        episode="",
        fingerprint=fingerprint(_LABELS),
        status="firing",
        severity=Severity.TICKET,
        told_severity=None,
        labels=_LABELS,
        annotations={"summary": said},
        starts_at=now,
        ends_at=None,
        url=settings.external_url,
    )
    return Notice(
        receiver=WATCHDOG,
        group_key=KEY,
        group_labels=_LABELS,
        reason=Reason.HEARTBEAT,
        items=(item,),
        external_url=settings.external_url,
        at=now,
    )
