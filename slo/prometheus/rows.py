"""Writes what was read into the count tables: rows that differ, and nothing where none does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from base.clock import Clock
from slo.compile import literal
from slo.completeness import Complete, advance_floors, read_complete
from slo.model import Slo
from slo.prometheus.reading import Reading
from slo.prometheus.tables import MINUTES, READ
from slo.prometheus.tally import Group, Judged
from slo.schema import TABLES
from slo.settings import SloSettings
from slo.slices import Slices
from store.dialect import for_cluster
from store.engine import Engine

_TEN_SECONDS, _MINUTE, _HOUR = sorted(TABLES)
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Row:
    """Counts of one bucket; `tail` is what was bad after its last good event, as far as known."""

    good: int
    bad: int
    tail: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Seconds [since, until) that are read for good."""

    since: int
    until: int


Rows = dict[tuple[Group, int], Row]


class CountWriter:
    """Keeps the rows of SLOs from Prometheus equal to what was read last. One writer a process."""

    def __init__(self, engine: Engine, settings: SloSettings, clock: Clock) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._version: int | None = None
        self._complete: dict[timedelta, Complete] = {}
        self._day: int | None = None

    def write(self, slo: Slo, reading: Reading) -> None:
        """Make the rows of [start, end) those of the reading; hours follow from minutes."""
        floors = self._floors()
        start, end = reading.start // 1000, -(-reading.end // 10_000) * 10
        fine = {key: _row(each) for key, each in reading.judged.items()}
        if slo.slices is not None and slo.slices.length == _TEN_SECONDS:
            fine = judged_slices(fine, slo.slices)
        minutes = _made(slo, _MINUTE, _TEN_SECONDS, fine)
        self._replace(slo, _TEN_SECONDS, fine, max(start, floors[_TEN_SECONDS]), end)
        minute_end = -(-end // 60) * 60
        self._replace(slo, _MINUTE, minutes, max(start, floors[_MINUTE]), minute_end)
        self._write_hours(slo, minutes, start, end, floors)
        self._write_heard(slo, reading)

    def read_stretch(self, slo: Slo) -> Stretch | None:
        rows = self._engine.rows(
            f"SELECT toInt64(toUInt32(since)) AS since, toInt64(toUInt32(until)) AS until "
            f"FROM {READ} FINAL WHERE {_of(slo)}"
        )
        return Stretch(rows[0]["since"], rows[0]["until"]) if rows else None

    def write_stretch(self, slo: Slo, stretch: Stretch) -> None:
        self._engine.execute(
            f"INSERT INTO {READ} VALUES ({literal(slo.name)}, {literal(slo.definition)}, "
            f"{stretch.since}, {stretch.until}, {self._next_version()})"
        )

    def forget_others(self, slos: Sequence[Slo]) -> list[str]:
        """Drop the rows of SLOs that are gone, or count something else now; return their names."""
        wanted = {(slo.name, slo.definition) for slo in slos}
        rows = self._engine.rows(
            f"SELECT DISTINCT slo, definition FROM (SELECT slo, definition FROM {READ} "
            f"UNION ALL SELECT DISTINCT toString(slo), toString(definition) FROM {MINUTES})"
        )
        gone = sorted({(row["slo"], row["definition"]) for row in rows} - wanted)
        for name, definition in gone:
            match = f"slo = {literal(name)} AND definition = {literal(definition)}"
            for table in (*TABLES.values(), MINUTES, READ):
                statement = f"ALTER TABLE {table} DELETE WHERE {match} SETTINGS mutations_sync = 2"
                self._engine.execute(for_cluster(statement, self._engine.cluster))
        return [name for name, _ in gone]

    def _write_hours(
        self, slo: Slo, minutes: Rows, start: int, end: int, floors: Mapping[timedelta, int]
    ) -> None:
        first, last = start // 3600 * 3600, -(-end // 3600) * 3600
        edge = min(max(first, floors[_MINUTE]), last)
        if first < edge:  # minutes are not kept so far back: only whole hours are read there
            old = {key: row for key, row in minutes.items() if key[1] < edge}
            hours = _made(slo, _HOUR, _MINUTE, old)
            self._replace(slo, _HOUR, hours, max(first, floors[_HOUR]), edge)
        if edge < last:
            kept = self._existing(slo, _MINUTE, edge, last)
            hours = _made(slo, _HOUR, _MINUTE, kept)
            self._replace(slo, _HOUR, hours, max(edge, floors[_HOUR]), last)

    def _replace(self, slo: Slo, step: timedelta, rows: Rows, start: int, end: int) -> None:
        if start >= end:
            return
        before = self._existing(slo, step, start, end)
        now = {key: row for key, row in rows.items() if start <= key[1] < end}
        changed = [key for key, row in now.items() if before.get(key) != row]
        gone = before.keys() - now.keys()
        if not changed and not gone:
            return
        # One insert: no reader finds a bucket without its rows.
        written = [(key, now[key], 0) for key in changed]
        written += [(key, Row(0, 0, 0), 1) for key in gone]
        reason = slo.prometheus.reason if slo.prometheus else "bad"
        self._engine.insert_arrow(TABLES[step], _table(slo, written, reason, self._next_version()))

    def _existing(self, slo: Slo, step: timedelta, start: int, end: int) -> Rows:
        rows = self._engine.rows(
            "SELECT toInt64(toUInt32(bucket)) AS at, group, toInt64(good) AS g, "
            f"toInt64(bad) AS b, toInt64(tail) AS t FROM {TABLES[step]} FINAL "
            f"WHERE {_of(slo)} AND {_within('bucket', start, end)}"
        )
        return {(tuple(row["group"]), row["at"]): Row(row["g"], row["b"], row["t"]) for row in rows}

    def _write_heard(self, slo: Slo, reading: Reading) -> None:
        start, end = reading.start // 60_000 * 60, -(-reading.end // 60_000) * 60
        first = min(start, min(reading.minutes, default=start))
        rows = self._engine.rows(
            f"SELECT toInt64(toUInt32(minute)) AS at, toUnixTimestamp64Milli(first) AS first, "
            f"toUnixTimestamp64Milli(last) AS last FROM {MINUTES} FINAL "
            f"WHERE {_of(slo)} AND {_within('minute', first, end)}"
        )
        before = {row["at"]: (row["first"], row["last"]) for row in rows}
        changed = {
            at: found
            for at, found in reading.minutes.items()
            if before.get(at) != found and (at >= start or at not in before)
        }
        gone = {at: before[at] for at in before if at >= start and at not in reading.minutes}
        if not changed and not gone:
            return
        both = [*((at, found, 0) for at, found in changed.items()),
                *((at, found, 1) for at, found in gone.items())]  # fmt: skip
        size = len(both)
        self._engine.insert_arrow(
            MINUTES,
            pa.table(
                {
                    "slo": pa.array([slo.name] * size),
                    "definition": pa.array([slo.definition] * size),
                    "minute": _seconds(at for at, _, _ in both),
                    "first": _milliseconds(found[0] for _, found, _ in both),
                    "last": _milliseconds(found[1] for _, found, _ in both),
                    "version": pa.array([self._next_version()] * size, pa.uint64()),
                    "deleted": pa.array([deleted for _, _, deleted in both], pa.uint8()),
                }
            ),
        )

    def _next_version(self) -> int:
        """Count writes upwards from what is stored: the clock may be set back."""
        if self._version is None:
            newest = [
                self._engine.rows(f"SELECT toInt64(max(version)) AS version FROM {table}")
                for table in (*TABLES.values(), MINUTES, READ)
            ]
            self._version = max(row["version"] for (row,) in newest)
        self._version += 1
        return self._version

    def _floors(self) -> dict[timedelta, int]:
        """Say from when on each table is kept, and see to what is older once a day."""
        now = self._clock.now()
        day = int(now.timestamp()) // _DAY
        if day != self._day:
            known = read_complete(self._engine)
            self._complete = advance_floors(self._engine, known, now, self._settings)
            drop = (
                f"ALTER TABLE {MINUTES} DELETE WHERE minute < "
                f"toDateTime({self._complete[_HOUR].floor}, 'UTC')"
            )
            self._engine.execute(for_cluster(drop, self._engine.cluster))
            self._day = day
        return {step: complete.floor for step, complete in self._complete.items()}


def judged_slices(rows: Mapping[tuple[Group, int], Row], slices: Slices) -> Rows:
    """Judge slices by finer buckets; each lies at its beginning."""
    size = round(slices.length.total_seconds())
    return {
        key: Row(1, 0, 0) if slices.is_good(row.good, row.bad) else Row(0, 1, 1)
        for key, row in coarser(rows, size).items()
        if row.good + row.bad
    }


def _made(slo: Slo, step: timedelta, finer: timedelta, rows: Rows) -> Rows:
    """Add up finer rows; of slices where `step` holds those and the finer rows do not."""
    if slo.slices is not None and step >= slo.slices.length > finer:
        rows = judged_slices(rows, slo.slices)
    return coarser(rows, round(step.total_seconds()))


def coarser(rows: Mapping[tuple[Group, int], Row], size: int) -> Rows:
    """Add up buckets of a finer table."""
    found: dict[tuple[Group, int], Row] = defaultdict(lambda: Row(0, 0, 0))
    for group, at in sorted(rows, key=lambda key: key[1]):
        row, key = rows[group, at], (group, at // size * size)
        sum_ = found[key]
        tail = row.tail if row.good else sum_.tail + row.bad
        found[key] = replace(sum_, good=sum_.good + row.good, bad=sum_.bad + row.bad, tail=tail)
    return dict(found)


def _row(each: Judged) -> Row:
    # Within one scrape nobody knows the order: where anything was good, the last one was.
    return Row(each.good, each.bad, 0 if each.good else each.bad)


def _table(
    slo: Slo, written: Sequence[tuple[tuple[Group, int], Row, int]], reason: str, version: int
) -> pa.Table:
    size = len(written)
    reasons = [[(reason, row.bad)] if row.bad else [] for _, row, _ in written]
    of_reasons = pa.map_(pa.string(), pa.uint64())

    def whole(values: Iterable[int]) -> pa.Array:
        return pa.array(list(values), pa.uint64())

    return pa.table(
        {
            "slo": pa.array([slo.name] * size),
            "definition": pa.array([slo.definition] * size),
            "bucket": _seconds(at for (_, at), _, _ in written),
            "group": pa.array([list(group) for (group, _), _, _ in written], pa.list_(pa.string())),
            "good": whole(row.good for _, row, _ in written),
            "bad": whole(row.bad for _, row, _ in written),
            "excluded": whole(0 for _ in written),
            "bad_reasons": pa.array(reasons, of_reasons),
            "excluded_reasons": pa.array([[] for _ in written], of_reasons),
            "tail": whole(row.tail for _, row, _ in written),
            "version": whole(version for _ in written),
            "deleted": pa.array([deleted for _, _, deleted in written], pa.uint8()),
        }
    )


def _of(slo: Slo) -> str:
    return f"slo = {literal(slo.name)} AND definition = {literal(slo.definition)}"


def _within(column: str, start: int, end: int) -> str:
    return f"{column} >= toDateTime({start}, 'UTC') AND {column} < toDateTime({end}, 'UTC')"


def _seconds(values: Iterable[int]) -> pa.Array:
    return pa.array(list(values), pa.int64()).cast(pa.timestamp("s", "UTC"))


def _milliseconds(values: Iterable[int]) -> pa.Array:
    return pa.array(list(values), pa.int64()).cast(pa.timestamp("ms", "UTC"))
