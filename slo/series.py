"""Good and bad over time, per group: what burn-down charts are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from base.durations import format_duration
from base.errors import BadInput
from slo.compile import literal
from slo.completeness import read_complete
from slo.exclusion import Excluded
from slo.judged_rows import edges_of, judged_rows
from slo.model import Slo
from slo.prometheus.buckets import all_written, without_facts
from slo.schema import TABLES
from slo.windows import NS, cut_span
from store.engine import Engine

MOST_POINTS = 5000


@dataclass(slots=True)
class Series:
    """One group: aligned lists, one entry a step that has requests, or in which slices begin."""

    group: dict[str, str]
    at: list[datetime] = field(default_factory=list)
    good: list[int] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    excluded: list[int] = field(default_factory=list)


def read_series(
    engine: Engine,
    slo: Slo,
    start: datetime,
    end: datetime,
    step: timedelta,
    excluded: Sequence[Excluded] = (),
    groups: Sequence[tuple[str, ...]] | None = None,
) -> list[Series]:
    """Sum whole steps that begin in [start, end), aligned to the epoch; of some groups, or all.

    `step` is a multiple of ten seconds. A step without requests has no entry. Slices are those that
    begin in a step and are over by `end`, so the last step may not be whole.
    """
    size = round(step.total_seconds())
    if size <= 0 or size % 10 or step != timedelta(seconds=size):
        raise BadInput(f"step {format_duration(step)} is not a multiple of 10s")
    if not start < end:
        raise BadInput("from must be before to")
    if (end - start) / step > MOST_POINTS:
        raise BadInput(f"more than {MOST_POINTS} steps: take a longer step")
    coarsest = max(each for each in TABLES if size % round(each.total_seconds()) == 0)
    first = -(-int(start.timestamp()) // size) * size
    last = -(-int(end.timestamp()) // size) * size
    if slo.slices is not None:
        length = round(slo.slices.length.total_seconds())
        first, last = -(-first // length) * length, int(end.timestamp()) // length * length
        if first >= last:
            return []
    complete = read_complete(engine)
    if slo.prometheus is not None:
        complete = all_written(complete)
    spans = cut_span(first * NS, last * NS, coarsest, complete, edges_of(excluded))
    if slo.prometheus is not None:
        spans = without_facts(spans, complete)
    rows = engine.rows(
        f"SELECT group, toInt64(intDiv(at, {size * NS}) * {size}) AS step, "
        "toInt64(sum(good)) AS g, toInt64(sum(bad)) AS b, toInt64(sum(excluded)) AS x "
        f"FROM ({judged_rows([slo], spans, excluded)}) {_of(groups)}"
        "GROUP BY group, step ORDER BY group, step"
    )
    found: dict[tuple[str, ...], Series] = {}
    for row in rows:
        key = tuple(row["group"])
        if key not in found:
            found[key] = Series(dict(zip(slo.group_by, key, strict=True)))
        series = found[key]
        series.at.append(datetime.fromtimestamp(row["step"], UTC))
        series.good.append(row["g"])
        series.bad.append(row["b"])
        series.excluded.append(row["x"])
    return list(found.values())


def _of(groups: Sequence[tuple[str, ...]] | None) -> str:
    if groups is None or () in groups:  # an SLO that is not grouped has one group
        return ""
    members = ", ".join(f"[{', '.join(map(literal, group))}]" for group in groups)
    # A set, which the engine looks up before it merges rows; `has` would be asked after.
    return f"WHERE group IN (SELECT arrayJoin(CAST([{members}], 'Array(Array(String))'))) "
