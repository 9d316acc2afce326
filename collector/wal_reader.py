"""The write-ahead log's reader: follows the writer from another process.

It holds no position of its own; whoever consumes the log says where to begin, and says when the
segments before a position may go.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from base.selfmon import Log
from collector.wal_records import (
    FIRST_OFFSET,
    Entry,
    LogRecord,
    Position,
    list_segments,
    open_segment,
    read_at,
    resync,
    segment_path,
)

BEGINNING = Position(0, 0)
_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class _Segment:
    number: int
    fd: int
    seed: int


@dataclass(frozen=True, slots=True)
class Range:
    """Records read in order, and the position behind the last one."""

    start: Position
    end: Position
    entries: tuple[Entry, ...]

    @property
    def spans(self) -> int:
        return sum(entry.record.spans for entry in self.entries)


class LogReader:
    """Reads only whole, intact records, and never past a torn tail of the newest segment.

    A damaged place in an older segment is skipped to the next intact record and counted in
    `damaged_bytes`. Safe to use from several threads.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._open: _Segment | None = None
        self.damaged_bytes = 0

    def read(
        self,
        start: Position,
        *,
        until: Position | None = None,
        max_spans: int | None = None,
        max_bytes: int | None = None,
    ) -> Range:
        """Read what there is from `start`, and at least one record if there is any."""
        entries: list[Entry] = []
        position, spans, size = start, 0, 0
        while until is None or position < until:
            if entries and (_over(spans, max_spans) or _over(size, max_bytes)):
                break
            found = self._next(position)
            if found is None:
                break
            if isinstance(found, Entry):
                entries.append(found)
                spans += found.record.spans
                size += len(found.record.body)
                position = found.end
            else:
                position = found
        return Range(start, position, tuple(entries))

    def peek(self, position: Position) -> LogRecord | None:
        """Return the first record at or behind a position."""
        entries = self.read(position, max_spans=0).entries
        return entries[0].record if entries else None

    def bytes_after(self, position: Position) -> int:
        """Count the bytes of the log behind a position, torn tails included."""
        total = 0
        for segment in list_segments(self._folder):
            if segment < position.segment:
                continue
            begin = position.offset if segment == position.segment else FIRST_OFFSET
            try:
                size = segment_path(self._folder, segment).stat().st_size
            except FileNotFoundError:
                continue
            total += max(0, size - max(begin, FIRST_OFFSET))
        return total

    def free(self, before: Position) -> int:
        """Delete the segments that end before a position; the newest one always stays."""
        gone = 0
        for segment in list_segments(self._folder)[:-1]:
            if segment < before.segment:
                segment_path(self._folder, segment).unlink(missing_ok=True)
                gone += 1
        return gone

    def close(self) -> None:
        with self._lock:
            self._close()

    def _next(self, position: Position) -> Entry | Position | None:
        """Return the record at a position, or the position to go on from, or None at the tail."""
        entry = self._record(position)
        if entry is not None:
            return entry
        segments = list_segments(self._folder)
        if segments and segments[-1] < position.segment:
            _log.warning("wal_was_replaced", position=str(position), newest=segments[-1])
            return Position(segments[0], FIRST_OFFSET)
        later = next((number for number in segments if number > position.segment), None)
        if later is None:
            return None
        # Only now is this segment known to be finished: look again before leaving it.
        entry = self._record(position)
        if entry is not None:
            return entry
        return self._behind_damage(position) or Position(later, FIRST_OFFSET)

    def _record(self, position: Position) -> Entry | None:
        offset = max(position.offset, FIRST_OFFSET)
        with self._lock:
            segment = self._segment(position.segment)
            found = None if segment is None else read_at(segment.fd, offset, segment.seed)
        if found is None:
            return None
        record, end = found
        return Entry(record, position, Position(position.segment, end))

    def _behind_damage(self, position: Position) -> Position | None:
        offset = max(position.offset, FIRST_OFFSET)
        with self._lock:
            segment = self._segment(position.segment)
            if segment is None:
                return None
            intact = resync(segment.fd, offset, segment.seed)
            lost = (os.fstat(segment.fd).st_size if intact is None else intact) - offset
        if lost > 0:
            self.damaged_bytes += lost
            _log.error("wal_damage_skipped", position=str(position), bytes=lost)
        return None if intact is None else Position(position.segment, intact)

    def _segment(self, number: int) -> _Segment | None:
        if self._open is not None and self._open.number == number:
            return self._open
        self._close()
        opened = open_segment(segment_path(self._folder, number))
        if opened is None:
            return None
        fd, seed = opened
        if seed is None:
            os.close(fd)
            return None
        self._open = _Segment(number, fd, seed)
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            os.close(self._open.fd)
            self._open = None


def _over(value: int, limit: int | None) -> bool:
    return limit is not None and value >= limit
