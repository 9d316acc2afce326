"""Judged requests, counted per SLO, group and bucket.

A row is a pure function of the facts of its bucket, so order, duplicates and lateness cannot
matter: when facts change, every row of their buckets is written anew, in one statement per table
for all SLOs. Ten-second rows come from facts, minutes from ten-second rows, hours from minutes;
where the finer rows are too old to be kept, from facts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from base.clock import Clock
from slo.compile import literal
from slo.model import Slo
from slo.recount import Buckets, from_facts, from_rows
from slo.retention import advance_floors
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
        self._slos = tuple(slos)
        self._floors: Mapping[timedelta, int] = {}
        self._floors_day: int | None = None

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

    def replace(self, slos: Sequence[Slo]) -> list[str]:
        """Take other SLOs, counting the new definitions."""
        with self._lock:
            self._slos = tuple(slos)
            return self._ensure()

    def rebuild(self, slo: Slo) -> None:
        """Throw away the counts of one SLO and count it over all stored facts."""
        with self._lock:
            self._forget([(slo.name, slo.definition)])
            self._count_all([slo])

    def _ensure(self) -> list[str]:
        wanted = {(slo.name, slo.definition): slo for slo in self._slos}
        rows = self._engine.rows("SELECT DISTINCT slo, definition FROM slo_built")
        built = {(row["slo"], row["definition"]) for row in rows}
        self._forget(built - wanted.keys())
        new = [slo for key, slo in wanted.items() if key not in built]
        self._count_all(new)
        return [slo.name for slo in new]

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
        days = self._engine.rows("SELECT DISTINCT toDate(start) AS day FROM facts ORDER BY day")
        for row in days:
            start = int(datetime.combine(row["day"], datetime.min.time(), UTC).timestamp())
            self._recount(slos, Buckets(start, start + _DAY), _FIRST_VERSION)
        for slo in slos:
            self._engine.execute(
                f"INSERT INTO slo_built VALUES ({literal(slo.name)}, {literal(slo.definition)})"
            )

    def _recount_dirty(self, dirty: Sequence[int], version: int) -> None:
        """Recount listed buckets, day by day where there are many: floors are whole days."""
        for chunk in _chunks(sorted(set(dirty))):
            self._recount(self._slos, Buckets(chunk[0], chunk[-1] + 10, tuple(chunk)), version)

    def _recount(self, slos: Sequence[Slo], dirty: Buckets, version: int) -> None:
        complete_from = self._complete_from()
        finer: timedelta | None = None
        for step in TABLES:
            finer_floor = None if finer is None else complete_from[finer]
            for buckets, rows_are_kept in _split(dirty, step, complete_from[step], finer_floor):
                if finer is not None and rows_are_kept:
                    statement = from_rows(step, finer, slos, buckets, version)
                else:
                    statement = from_facts(step, slos, buckets, version)
                self._engine.execute(statement)
            finer = step

    def _complete_from(self) -> Mapping[timedelta, int]:
        day = _epoch(self._clock.now()) // _DAY
        if day != self._floors_day:
            self._floors = advance_floors(self._engine, self._clock.now(), self._settings)
            self._floors_day = day
        return self._floors


def _split(
    dirty: Buckets, step: timedelta, floor: int, finer_floor: int | None
) -> Iterator[tuple[Buckets, bool]]:
    """Widen to whole buckets of `step`, drop what is too old, part at the finer table's floor."""
    size = round(step.total_seconds())
    start, end = dirty.start // size * size, -(-dirty.end // size) * size
    only = None if dirty.only is None else {at // size * size for at in dirty.only}
    edge = finer_floor if finer_floor is not None else floor
    for first, last, rows_are_kept in (
        (start, min(end, edge), False),
        (max(start, edge), end, True),
    ):
        first = max(first, floor)  # noqa: PLW2901  the table starts there
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
