"""How far the data of SLOs from Prometheus reach, and how complete they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from base.durations import floor_to
from slo.liveness import Layer, share_of_minutes
from slo.model import Slo
from slo.prometheus.sli import Queries
from slo.prometheus.tables import MINUTES
from slo.recount import of
from slo.settings import SloSettings
from store.engine import Engine

_MINUTE = timedelta(minutes=1)


def read_heard(
    engine: Engine, slos: Sequence[Slo], lengths: Iterable[timedelta], now: datetime
) -> Mapping[str, Layer]:
    """Read, as of `now`, what was heard for each SLO; one of which nothing was has no entry."""
    if not slos:
        return {}
    minute = floor_to(now, _MINUTE)
    windows = sorted(set(lengths))
    starts = [-(-(now - window).timestamp() // 60) * 60 for window in windows]
    covered = "".join(
        f", toInt64(countIf(minute >= toDateTime({round(start)}, 'UTC') "
        f"AND minute < toDateTime({round(minute.timestamp())}, 'UTC'))) AS covered_{number}"
        for number, start in enumerate(starts)
    )
    rows = engine.rows(
        "SELECT toString(slo) AS name, min(first) AS since, max(at_last) AS until"
        f"{covered} FROM (SELECT slo, minute, first, "
        "least(last, {now:DateTime64(3, 'UTC')}) AS at_last "
        f"FROM {MINUTES} FINAL WHERE {of(slos)} AND first <= {{now:DateTime64(3, 'UTC')}}) "
        "GROUP BY slo",
        {"now": now},
    )
    return {
        row["name"]: Layer(
            name="prometheus",
            first=row["since"],
            last=row["until"],
            coverage={
                window: share_of_minutes(
                    row[f"covered_{number}"], now - window, row["since"], row["until"], now
                )
                for number, window in enumerate(windows)
            },
        )
        for row in rows
    }


def silence_allowed(slo: Slo, settings: SloSettings) -> timedelta:
    """Say how old the newest sample may be before the verdict is frozen."""
    if slo.prometheus is None:
        return settings.stale_after
    servers = settings.prometheus
    name = slo.prometheus.server or (next(iter(servers)) if len(servers) == 1 else "")
    own = servers[name].stale_after if name in servers else None
    allowed = settings.stale_after if own is None else own
    events = slo.prometheus.events
    return allowed + events.resolution if isinstance(events, Queries) else allowed
