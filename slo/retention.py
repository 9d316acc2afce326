"""How long judged counts are kept, and from where on each table is complete.

Ages are of event time. The floor is written before anything is dropped, so a reader never takes a
dropped row for a bucket without requests: it reads facts, or a coarser table, instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from base.durations import floor_to
from slo.schema import TABLES
from store.engine import Engine

KEPT: Mapping[timedelta, timedelta] = {
    timedelta(seconds=10): timedelta(days=2),
    timedelta(minutes=1): timedelta(days=31),
    timedelta(hours=1): timedelta(days=400),
}


def floors(engine: Engine) -> dict[timedelta, int]:
    """Say from which second on each table is complete."""
    rows = engine.rows("SELECT step, max(toUInt32(floor)) AS floor FROM slo_floors GROUP BY step")
    known = {row["step"]: row["floor"] for row in rows}
    return {step: known.get(round(step.total_seconds()), 0) for step in TABLES}


def retain(
    engine: Engine, newest: datetime, kept: Mapping[timedelta, timedelta] | None = None
) -> None:
    """Drop counts older than what is kept before `newest`, the newest event time stored."""
    for step, table in TABLES.items():
        # A whole day: the floor is then a bucket edge of every table.
        floor = floor_to(newest - (kept or KEPT)[step], timedelta(days=1))
        seconds, epoch = round(step.total_seconds()), int(floor.timestamp())
        if epoch <= floors(engine)[step]:
            continue
        engine.execute(f"INSERT INTO slo_floors VALUES ({seconds}, {epoch})")
        engine.execute(
            f"ALTER TABLE {table} DELETE WHERE bucket < toDateTime({epoch}, 'UTC') "
            "SETTINGS mutations_sync = 2"
        )
