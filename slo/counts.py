"""Judged requests, counted per SLO, group and bucket.

A row is a pure function of the facts of its bucket, so order, duplicates and lateness cannot
matter: when facts change, every row of their buckets is written anew, in one statement per table
for all SLOs that are counted alike. Ten-second rows come from facts, minutes from ten-second rows,
hours from minutes; where the finer rows are too old to be kept, from facts. What readers do not
take from a table yet (`slo.completeness`) is not written yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from base.clock import Clock
from slo.compile import literal
from slo.completeness import (
    Complete,
    advance_floors,
    next_until,
    read_complete,
    write_complete,
)
from slo.model import Slo
from slo.recount import Buckets, statements
from slo.schema import TABLES
from slo.settings import SloSettings
from store.dialect import for_cluster
from store.engine import Engine

_AT_ONCE = 4000  # buckets in one statement: its text stays below the engine's 256 KiB
_FIRST_VERSION = 1  # of rows counted before any batch was seen
_DAY = 86_400


class SloCounts:
    """Keeps the count tables true; a `BucketListener` of the ingest pipeline."""

    def __init__(
        self, engine: Engine, slos: Sequence[Slo], settings: SloSettings, clock: Clock
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._slos = _from_facts(slos)
        self._complete: dict[timedelta, Complete] | None = None
        self._day: int | None = None  # the day of the floors

    def refresh(self, buckets: Sequence[datetime], version: int) -> None:
        """Recount the given ten-second buckets and what is made of them. Idempotent."""
        if not self._slos or not buckets:
            return
        with self._lock:
            self._recount_dirty([_epoch(bucket) for bucket in buckets], version)

    def ensure(self) -> list[str]:
        """Count every definition that is new over all stored facts; forget those that are gone.

        Call it before the first `refresh`. Returns the names of the SLOs that were counted.
        """
        with self._lock:
            return self._ensure()

    def replace(self, slos: Sequence[Slo], switch: Callable[[], None] = lambda: None) -> list[str]:
        """Take other SLOs: count the new definitions, `switch` the readers, forget the old ones.

        Until `switch` returns, what readers ask for is there and true: nothing that fires resolves
        because its counts are gone. Returns the names of the SLOs that were counted.
        """
        with self._lock:
            before = {_key(slo): slo for slo in self._slos}
            after = {_key(slo): slo for slo in _from_facts(slos)}
            self._slos = tuple((before | after).values())
            counted = self._count_new()
            switch()
            self._slos = tuple(after.values())
            self._forget_others()
            return counted

    def _ensure(self) -> list[str]:
        self._forget_others()
        return self._count_new()

    def _count_new(self) -> list[str]:
        built = self._built()
        new = [slo for slo in self._slos if _key(slo) not in built]
        self._count_all(new)
        self._advance(self._newest(), _FIRST_VERSION)
        return [slo.name for slo in new]

    def _forget_others(self) -> None:
        self._forget(self._built() - {_key(slo) for slo in self._slos})

    def _built(self) -> set[tuple[str, str]]:
        rows = self._engine.rows("SELECT DISTINCT slo, definition FROM slo_built")
        return {(row["slo"], row["definition"]) for row in rows}

    def _forget(self, gone: Iterable[tuple[str, str]]) -> None:
        # A definition that comes back is counted anew: while it was gone nothing refreshed it.
        for name, definition in sorted(gone):
            match = f"slo = {literal(name)} AND definition = {literal(definition)}"
            for table in ("slo_built", *TABLES.values()):
                statement = f"ALTER TABLE {table} DELETE WHERE {match} SETTINGS mutations_sync = 2"
                self._engine.execute(for_cluster(statement, self._engine.cluster))

    def _count_all(self, slos: Sequence[Slo]) -> None:
        if not slos:
            return
        for day in self._days():
            self._recount(slos, Buckets(day, day + _DAY), _FIRST_VERSION)
        for slo in slos:
            self._engine.execute(
                f"INSERT INTO slo_built VALUES ({literal(slo.name)}, {literal(slo.definition)})"
            )

    def _recount_dirty(self, dirty: Sequence[int], version: int) -> None:
        for chunk in _chunks(sorted(set(dirty))):
            self._recount(self._slos, Buckets(chunk[0], chunk[-1] + 10, tuple(chunk)), version)
        self._advance(max(dirty) + 10, version)

    def _recount(self, slos: Sequence[Slo], dirty: Buckets, version: int) -> None:
        """Write what is complete of every table anew, finest first."""
        for step in TABLES:
            self._recount_table(step, slos, dirty, self._known()[step], version)

    def _advance(self, newest: int, version: int) -> None:
        """Make the minutes and hours that have become old enough, then let them be read."""
        for step in list(TABLES)[1:]:
            known = self._known()
            until = next_until(step, newest)
            if until <= known[step].until:
                continue
            new = Complete(known[step].floor, until)
            for day in self._days():
                start, end = max(known[step].until, day), min(until, day + _DAY)
                if start < end:
                    self._recount_table(step, self._slos, Buckets(start, end), new, version)
            write_complete(self._engine, step, new)
            known[step] = new

    def _recount_table(
        self, step: timedelta, slos: Sequence[Slo], dirty: Buckets, within: Complete, version: int
    ) -> None:
        finer = max((each for each in TABLES if each < step), default=None)
        finer_floor = None if finer is None else self._known()[finer].floor
        for buckets, rows_are_kept in _split(dirty, step, within, finer_floor):
            source = finer if rows_are_kept else None
            for statement in statements(step, source, slos, buckets, version):
                self._engine.execute(statement)

    def _days(self) -> list[int]:
        """Name the days that have requests, by the second they begin: work is cut in days."""
        rows = self._engine.rows("SELECT DISTINCT toDate(start) AS day FROM facts ORDER BY day")
        return [
            int(datetime.combine(row["day"], datetime.min.time(), UTC).timestamp()) for row in rows
        ]

    def _newest(self) -> int:
        (row,) = self._engine.rows("SELECT max(toUnixTimestamp64Nano(start)) AS at FROM facts")
        return int(row["at"]) // 10_000_000_000 * 10 + 10

    def _known(self) -> dict[timedelta, Complete]:
        """Say what is complete, and see to the floors once a day."""
        now = self._clock.now()
        if self._complete is None:
            self._complete = read_complete(self._engine)
        if self._day != _epoch(now) // _DAY:
            self._complete = advance_floors(self._engine, self._complete, now, self._settings)
            self._day = _epoch(now) // _DAY
        return self._complete


def _key(slo: Slo) -> tuple[str, str]:
    return slo.name, slo.definition


def _from_facts(slos: Sequence[Slo]) -> tuple[Slo, ...]:
    """Leave out what is counted elsewhere (`slo.prometheus`)."""
    return tuple(slo for slo in slos if slo.prometheus is None)


def _split(
    dirty: Buckets, step: timedelta, within: Complete, finer_floor: int | None
) -> Iterator[tuple[Buckets, bool]]:
    """Widen to whole buckets of `step`, keep what is complete, part at the finer table's floor.

    The flag says whether the finer table has the rows.
    """
    size = round(step.total_seconds())
    start = max(dirty.start // size * size, within.floor)
    end = min(-(-dirty.end // size) * size, within.until)
    only = None if dirty.only is None else {at // size * size for at in dirty.only}
    edge = start if finer_floor is None else min(max(start, finer_floor), end)
    for first, last, rows_are_kept in ((start, edge, False), (edge, end, True)):
        if first >= last:
            continue
        if only is None:
            yield Buckets(first, last), rows_are_kept
        elif kept := tuple(sorted(at for at in only if first <= at < last)):
            yield Buckets(kept[0], kept[-1] + size, kept), rows_are_kept


def _chunks(buckets: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(buckets), _AT_ONCE):
        yield buckets[start : start + _AT_ONCE]


def _epoch(moment: datetime) -> int:
    return int(moment.timestamp())
