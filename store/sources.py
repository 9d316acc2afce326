"""Who sends, and how far what they sent is complete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from store.engine import Engine

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class SourceState:
    """One process that sends spans; `last` is its watermark, the end of its newest event."""

    layer: str
    service: str
    instance: str
    first: datetime
    last: datetime


def watermarks(engine: Engine, now: datetime, since: datetime | None = None) -> list[SourceState]:
    """Return every source heard until `now`, with its newest event at or before `now`.

    With `since`, of the minutes from there on only.
    """
    rows = engine.rows(
        "SELECT layer, service, instance, min(first) AS since, max(least(last, now)) AS until "
        "FROM (SELECT *, {now:DateTime64(9, 'UTC')} AS now FROM source_minutes "
        "WHERE minute <= toDateTime({now:DateTime64(9, 'UTC')}, 'UTC') "
        "AND minute >= toDateTime({since:DateTime64(9, 'UTC')}, 'UTC')) "
        "WHERE first <= now GROUP BY layer, service, instance ORDER BY layer, service, instance",
        {"now": now, "since": since or _EPOCH},
    )
    return [
        SourceState(
            layer=row["layer"],
            service=row["service"],
            instance=row["instance"],
            first=row["since"],
            last=row["until"],
        )
        for row in rows
    ]
