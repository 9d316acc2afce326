"""Cells of whole hours and days, kept so that a month is not read every minute.

A closed hour changes when a late request arrives: then it, and those near enough to be touched by
the request, are forgotten, and read anew when they are asked for. Nothing outlives the process:
after a restart everything is read, newest first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from slo.spending.cell import Cell, total
from slo.spending.source import Hour, Hours

DAY_HOURS = 24
MOST_HOURS = 480
MOST_DAYS = 480
_FEW, _MANY = 30_000, 100_000
"""Requests of one reading of days: it is made longer below, shorter above."""
_LONGEST = 16  # days in one reading

Read = Callable[[datetime, datetime, datetime], Mapping[Hour, Cell]]
"""Reads [start, end), by hour; nothing from the third instant on is seen."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The cell of each window [start, at), by its start; None where not all of it was read yet.

    Everything since `since` was read.
    """

    cells: Mapping[datetime, Cell | None]
    since: datetime


class HourBook:
    """Sums of what one question answers, over windows that end at one instant."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._hours: OrderedDict[Hour, Cell] = OrderedDict()
        self._days: OrderedDict[Hour, Cell] = OrderedDict()  # by their first hour
        self._readers = 0
        self._forgotten: list[Hours] = []  # while somebody reads
        self._at_once = 4  # days in one reading

    def forget(self, hours: Hours) -> None:
        """Read these hours anew when they are asked for; any thread may say so at any time."""
        with self._lock:
            for hour in [each for each in self._hours if hours[0] <= each < hours[1]]:
                del self._hours[hour]
            for day in [each for each in self._days if _in([hours], each, DAY_HOURS)]:
                del self._days[day]
            if self._readers:
                self._forgotten.append(hours)

    def sums(self, starts: Iterable[datetime], at: datetime, most_reads: int | None = None) -> Sums:
        """Add up each window; whole hours are read at most so many times, the newest first.

        The hour that holds `at`, the one before, and the part of an hour with which a window
        begins are read each time.
        """
        wanted = sorted(set(starts), reverse=True)
        newest = _seconds(at) // 3600
        tail = self._read(_start(newest - 1), at, at)
        pieces = self._backwards(newest + 1, tail, [_first(each) for each in wanted], most_reads)
        running, cursor = Cell(), newest + 1
        found: dict[datetime, Cell | None] = {}
        for start in wanted:
            first = _first(start)
            if _start(first) >= at:
                found[start] = total(self._read(start, at, at).values() if start < at else ())
                continue
            while cursor > first and (piece := next(pieces, None)) is not None:
                cursor = piece[0]
                running.add(piece[1])
            if cursor > first:
                found[start] = None
                continue
            found[start] = cell = running.copy()
            if start < _start(first):
                cell.add(total(self._read(start, _start(first), at).values()))
        self._tidy()
        return Sums(found, min(_start(cursor), at))

    def _backwards(
        self, end: Hour, tail: Mapping[Hour, Cell], edges: Sequence[Hour], most_reads: int | None
    ) -> Iterator[tuple[Hour, Cell]]:
        """Yield adjoining cells by their first hour, newest first; no cell crosses an edge."""
        for hour in (end - 1, end - 2):
            yield hour, tail.get(hour, Cell())
        cursor, oldest = end - 2, min(edges, default=end)
        fresh: dict[Hour, Cell] = {}
        reads = 0
        while cursor > oldest:
            whole = _is_whole_day(cursor - DAY_HOURS, oldest, edges)
            first = cursor - (DAY_HOURS if whole else 1)
            cell = self._known(first, whole=whole)
            if cell is None and first not in fresh:
                if most_reads is not None and reads >= most_reads:
                    return
                reads += 1
                gap = self._gap(cursor, oldest, edges, whole=whole)
                fresh = self._fetch(gap, cursor, whole=whole)
            cursor = first
            yield first, fresh[first] if cell is None else cell

    def _gap(self, end: Hour, oldest: Hour, edges: Sequence[Hour], *, whole: bool) -> Hour:
        """Find where one reading that ends there begins: some days earlier, or at midnight."""
        size = DAY_HOURS if whole else 1
        least = end - self._at_once * size if whole else (end - 1) // DAY_HOURS * DAY_HOURS
        first = end - size
        while first - size >= max(oldest, least):
            if self._known(first - size, whole=whole) is not None:
                break
            if whole and not _is_whole_day(first - size, oldest, edges):
                break
            first -= size
        return first

    def _known(self, first: Hour, *, whole: bool) -> Cell | None:
        with self._lock:
            kept = self._days if whole else self._hours
            if first in kept:
                kept.move_to_end(first)
                return kept[first]
            hours = range(first, first + DAY_HOURS)
            if not whole or not all(hour in self._hours for hour in hours):
                return None
            self._days[first] = total(self._hours[hour] for hour in hours)
            return self._days[first]

    def _fetch(self, first: Hour, end: Hour, *, whole: bool) -> dict[Hour, Cell]:
        """Read whole hours, and keep what did not change meanwhile; whole days are one cell."""
        with self._lock:
            self._readers += 1
            begun = len(self._forgotten)
        found: dict[Hour, Cell] = {}
        size = DAY_HOURS if whole else 1
        try:
            read = self._read(_start(first), _start(end), _start(end + 1))
            for at in range(first, end, size):
                found[at] = total(read[hour] for hour in range(at, at + size) if hour in read)
            if whole:
                self._pace(found)
        finally:
            with self._lock:
                kept = self._days if whole else self._hours
                changed = self._forgotten[begun:]
                kept.update((at, cell) for at, cell in found.items() if not _in(changed, at, size))
                self._readers -= 1
                if not self._readers:
                    self._forgotten.clear()
        return found

    def _pace(self, found: Mapping[Hour, Cell]) -> None:
        """Read more days at once where they hold few requests, fewer where they hold many."""
        requests = sum(each.requests for cell in found.values() for each in cell.counted.values())
        if requests < _FEW:
            self._at_once = min(2 * self._at_once, _LONGEST)
        elif requests > _MANY:
            self._at_once = max(self._at_once // 2, 1)

    def _tidy(self) -> None:
        with self._lock:
            while len(self._hours) > MOST_HOURS:
                self._hours.popitem(last=False)
            while len(self._days) > MOST_DAYS:
                self._days.popitem(last=False)


def _is_whole_day(first: Hour, oldest: Hour, edges: Sequence[Hour]) -> bool:
    """Say whether a UTC day begins there that may be one cell: no window begins within it."""
    if first % DAY_HOURS or first < oldest:
        return False
    return not any(first < edge < first + DAY_HOURS for edge in edges)


def _in(changed: Sequence[Hours], first: Hour, size: int) -> bool:
    return any(first < hours[1] and hours[0] < first + size for hours in changed)


def _first(start: datetime) -> Hour:
    """Name the first hour that lies whole after an instant."""
    return -(-_seconds(start) // 3600)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _start(hour: Hour) -> datetime:
    return datetime.fromtimestamp(hour * 3600, UTC)
