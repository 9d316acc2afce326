"""From when until when each count table is complete.

A reader takes from a table only what lies in [floor, until) and the rest from finer tables or from
facts, so a row that is not kept, or not made yet, is never a bucket without requests.

`floor` moves on with age: earlier buckets are neither written nor kept. `until` follows the newest
request at a distance: minutes and hours are made once, when hardly any request of theirs is still
to come, instead of with every batch. Both only move forward, and both are bucket edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from base.durations import floor_to
from slo.schema import TABLES
from slo.settings import SloSettings
from store.dialect import for_cluster
from store.engine import Engine

END_OF_TIME = 2**32 // 86_400 * 86_400  # a DateTime's last whole day

_FINEST = min(TABLES)
_DISTANCE = {timedelta(minutes=1): 120, timedelta(hours=1): 300}  # seconds


@dataclass(frozen=True, slots=True)
class Complete:
    """Seconds since the epoch, [floor, until)."""

    floor: int
    until: int


def read_complete(engine: Engine) -> dict[timedelta, Complete]:
    rows = engine.rows(
        "SELECT step, toInt64(toUInt32(max(floor))) AS floor, "
        "toInt64(toUInt32(max(until))) AS until FROM slo_complete GROUP BY step"
    )
    known = {row["step"]: Complete(row["floor"], row["until"]) for row in rows}
    found = {step: known.get(round(step.total_seconds()), Complete(0, 0)) for step in TABLES}
    return found | {_FINEST: replace(found[_FINEST], until=END_OF_TIME)}


def write_complete(engine: Engine, step: timedelta, complete: Complete) -> None:
    until = 0 if complete.until == END_OF_TIME else complete.until
    engine.execute(
        "INSERT INTO slo_complete (step, floor, until) VALUES "
        f"({round(step.total_seconds())}, {complete.floor}, {until})"
    )


def next_until(step: timedelta, newest: int) -> int:
    """Say until when a table should be made, given the end of the newest ten seconds seen."""
    size = round(step.total_seconds())
    return max(0, newest - _DISTANCE[step]) // size * size


def advance_floors(
    engine: Engine, current: Mapping[timedelta, Complete], now: datetime, settings: SloSettings
) -> dict[timedelta, Complete]:
    """Move the floors on to what is kept at `now` and drop what lies before.

    The floor is written before anything is dropped, so no reader takes a gap for silence.
    """
    kept = dict(zip(TABLES, (settings.keep_10s, settings.keep_1m, settings.keep_1h), strict=True))
    out = dict(current)
    for step, table in TABLES.items():
        # A whole day is a bucket edge of every table.
        floor = int(floor_to(now - kept[step], timedelta(days=1)).timestamp())
        if floor <= current[step].floor:
            continue
        out[step] = replace(current[step], floor=floor)
        write_complete(engine, step, out[step])
        drop = (
            f"ALTER TABLE {table} DELETE WHERE bucket < toDateTime({floor}, 'UTC') "
            "SETTINGS mutations_sync = 2"
        )
        engine.execute(for_cluster(drop, engine.cluster))
    return out
