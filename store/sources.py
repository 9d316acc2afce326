"""Who sends, and how far what they sent is complete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from store.engine import Engine


@dataclass(frozen=True, slots=True)
class SourceState:
    """One process that sends spans; `last` is its watermark, the end of its newest event."""

    layer: str
    service: str
    instance: str
    first: datetime
    last: datetime


def watermarks(engine: Engine, now: datetime) -> list[SourceState]:
    """Return every source heard until `now`, with its newest event at or before `now`."""
    rows = engine.rows(
        "SELECT layer, service, instance, min(first) AS since, max(least(last, now)) AS until "
        "FROM (SELECT *, {now:DateTime64(9, 'UTC')} AS now FROM source_minutes "
        "WHERE minute <= toDateTime({now:DateTime64(9, 'UTC')}, 'UTC')) "
        "WHERE first <= now GROUP BY layer, service, instance ORDER BY layer, service, instance",
        {"now": now},
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
