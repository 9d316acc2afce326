"""Good and bad over time, per group: what burn-down charts are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from base.durations import format_duration
from base.errors import BadInput
from slo.compile import literal
from slo.model import Slo
from slo.retention import floors
from slo.schema import TABLES
from store.engine import Engine

MOST_POINTS = 5000


@dataclass(slots=True)
class Series:
    """One group: aligned lists, one entry a step that has requests."""

    group: dict[str, str]
    at: list[datetime] = field(default_factory=list)
    good: list[int] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    excluded: list[int] = field(default_factory=list)


def read_series(
    engine: Engine, slo: Slo, start: datetime, end: datetime, step: timedelta
) -> list[Series]:
    """Sum whole steps that begin in [start, end), aligned to the epoch.

    `step` is a multiple of ten seconds; where the ten-second or minute counts that it needs have
    been dropped, the steps are missing, never zero.
    """
    size = round(step.total_seconds())
    if size <= 0 or size % 10 or step != timedelta(seconds=size):
        raise BadInput(f"step {format_duration(step)} is not a multiple of 10s")
    if not start < end:
        raise BadInput("from must be before to")
    if (end - start) / step > MOST_POINTS:
        raise BadInput(f"more than {MOST_POINTS} steps: take a longer step")
    bucket = max(each for each in TABLES if size % round(each.total_seconds()) == 0)
    complete_from = floors(engine)[bucket]
    first = -(-int(start.timestamp()) // size) * size
    last = -(-int(end.timestamp()) // size) * size
    rows = engine.rows(
        f"SELECT group, toInt64(intDiv(toUInt32(bucket), {size}) * {size}) AS at, "
        "toInt64(sum(good)) AS g, toInt64(sum(bad)) AS b, toInt64(sum(excluded)) AS x "
        f"FROM {TABLES[bucket]} FINAL WHERE slo = {literal(slo.name)} "
        f"AND definition = {literal(slo.definition)} "
        f"AND bucket >= toDateTime({max(first, complete_from)}, 'UTC') "
        f"AND bucket < toDateTime({last}, 'UTC') GROUP BY group, at ORDER BY group, at"
    )
    found: dict[tuple[str, ...], Series] = {}
    for row in rows:
        key = tuple(row["group"])
        if key not in found:
            found[key] = Series(dict(zip(slo.group_by, key, strict=True)))
        series = found[key]
        series.at.append(datetime.fromtimestamp(row["at"], UTC))
        series.good.append(row["g"])
        series.bad.append(row["b"])
        series.excluded.append(row["x"])
    return list(found.values())
