"""What is too old is dropped, partition by partition.

Age is counted from the newest event, not from the wall clock: a replay of last year's traffic is
kept as long as today's.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from store.engine import Engine
from store.settings import StoreSettings

_FAR_AHEAD = timedelta(days=1)  # a broken clock must not make everything else look old


def newest_event(engine: Engine, now: datetime) -> datetime | None:
    """Return the newest event time stored, at most a day after `now`; None when nothing is."""
    rows = engine.rows(
        "SELECT count() AS minutes, max(minute) AS newest FROM source_minutes "
        "WHERE minute <= {limit:DateTime64(6, 'UTC')}",
        {"limit": now + _FAR_AHEAD},
    )
    newest: datetime = rows[0]["newest"]
    return newest if rows[0]["minutes"] else None


def retain(engine: Engine, newest: datetime, settings: StoreSettings) -> list[str]:
    """Drop every partition that ends before what is kept; returns `table/partition` names."""
    daily = {
        "spans": settings.keep_spans,
        "facts": settings.keep_facts,
        "rollup_10s": settings.keep_10s,
        "rollup_1m": settings.keep_1m,
    }
    monthly = {
        "rollup_1h": settings.keep_1h,
        "alive": settings.keep_1h,
        "source_minutes": settings.keep_1m,
    }
    gone = []
    for kept, form in ((daily, "%Y-%m-%d"), (monthly, "%Y%m")):
        for table, age in kept.items():
            limit = (newest - age).strftime(form)
            for partition in _partitions(engine, table):
                if partition < limit:
                    name = f"'{partition}'" if "-" in partition else partition
                    engine.execute(f"ALTER TABLE {table} DROP PARTITION {name}")
                    gone.append(f"{table}/{partition}")
    return gone


def _partitions(engine: Engine, table: str) -> list[str]:
    rows = engine.rows(
        "SELECT DISTINCT partition FROM system.parts "
        "WHERE database = currentDatabase() AND table = {table:String} AND active "
        "ORDER BY partition",
        {"table": table},
    )
    return [row["partition"] for row in rows]
