"""How long judged counts are kept, and from where on each table is complete.

A table is complete from its floor on: earlier buckets are neither written nor kept. A reader
takes what lies before a floor from facts, so a dropped row is never a bucket without requests.
Floors are whole days, hence bucket edges of every table; they only move forward.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from base.durations import floor_to
from slo.schema import TABLES
from slo.settings import SloSettings
from store.dialect import for_cluster
from store.engine import Engine


def floors(engine: Engine) -> dict[timedelta, int]:
    """Say from which second on each table is complete."""
    rows = engine.rows("SELECT step, max(toUInt32(floor)) AS floor FROM slo_floors GROUP BY step")
    known = {row["step"]: row["floor"] for row in rows}
    return {step: known.get(round(step.total_seconds()), 0) for step in TABLES}


def advance_floors(engine: Engine, now: datetime, settings: SloSettings) -> dict[timedelta, int]:
    """Move the floors on to what is kept at `now` and drop what lies before; return them.

    The floor is written before anything is dropped, so no reader takes a gap for silence.
    """
    kept = dict(zip(TABLES, (settings.keep_10s, settings.keep_1m, settings.keep_1h), strict=True))
    current = floors(engine)
    for step, table in TABLES.items():
        floor = int(floor_to(now - kept[step], timedelta(days=1)).timestamp())
        if floor <= current[step]:
            continue
        engine.execute(
            f"INSERT INTO slo_floors VALUES ({round(step.total_seconds())}, {max(0, floor)})"
        )
        drop = (
            f"ALTER TABLE {table} DELETE WHERE bucket < toDateTime({floor}, 'UTC') "
            "SETTINGS mutations_sync = 2"
        )
        engine.execute(for_cluster(drop, engine.cluster))
        current[step] = floor
    return current
