"""The write-ahead log's writer: what it has acknowledged is on disk.

One thread writes and syncs. While it waits for the disk, requests gather; one sync covers them all.
Nothing is ever appended to a segment of an earlier run, so a reader's position stays true even if
a power cut took bytes that it had already read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from base.errors import ConfigError, Retryable
from base.selfmon import Log
from collector.wal_records import (
    FIRST_OFFSET,
    LogRecord,
    Position,
    encode,
    encoded_size,
    list_segments,
    new_mark,
    open_segment,
    read_at,
    resync,
    seed_of,
    segment_path,
)

SEGMENT_BYTES = 64 << 20
QUEUE_BYTES = 128 << 20
GROUP_BYTES = 16 << 20  # written and synced at once; bounds how long one sync can take
DISK_TRIES_AGAIN = timedelta(seconds=5)
QUEUE_DRAINS_IN = timedelta(seconds=1)

_IOV_MAX = 512
_log = Log(__name__)


class Disk(Protocol):
    """The two calls that can fail because of the disk."""

    def write(self, fd: int, buffers: Sequence[bytes]) -> None: ...

    def sync(self, fd: int) -> None: ...


class OsDisk:
    """The real disk."""

    def write(self, fd: int, buffers: Sequence[bytes]) -> None:
        """Write every byte of every buffer at the end of the file."""
        for first in range(0, len(buffers), _IOV_MAX):
            left = [memoryview(part) for part in buffers[first : first + _IOV_MAX] if part]
            while left:
                written = os.writev(fd, left)
                while left and written >= len(left[0]):
                    written -= len(left.pop(0))
                if written:
                    left[0] = left[0][written:]

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)


class LogWriter:
    """The only writer of a log folder.

    `append` may be called from any thread. A failing disk makes it `Retryable`, and nothing else:
    the next append tries again, so a disk that was full and is not any more needs no restart.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        queue_bytes: int = QUEUE_BYTES,
        disk: Disk | None = None,
    ) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._queue_bytes = queue_bytes
        self._disk = disk or OsDisk()
        self._ready = threading.Condition()
        self._pending: list[tuple[LogRecord, Future[Position]]] = []
        self._queued_bytes = 0
        self._closing = False
        self._fd: int | None = None
        self._seed = 0
        self._size = 0
        self.last_error: str | None = None
        self.syncs = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _lock(folder)
        self._segment = _recover(folder)
        self._thread = threading.Thread(target=self._run, name="wal", daemon=True)
        self._thread.start()

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted but not yet on disk."""
        return self._queued_bytes

    def append(self, record: LogRecord) -> Future[Position]:
        """Queue a record; the future resolves once it has been synced to disk.

        Raises Retryable at once when the queue is full or the log is closing; the future fails with
        Retryable when the disk refuses.
        """
        size = encoded_size(record)
        with self._ready:
            if self._closing:
                raise Retryable("the receiver is shutting down", QUEUE_DRAINS_IN)
            if self._queued_bytes and self._queued_bytes + size > self._queue_bytes:
                raise Retryable("the write-ahead log's queue is full", QUEUE_DRAINS_IN)
            future: Future[Position] = Future()
            future.set_running_or_notify_cancel()  # a sender that hangs up cannot cancel it
            self._pending.append((record, future))
            self._queued_bytes += size
            self._ready.notify()
        return future

    def close(self) -> None:
        """Write and sync what is queued, then let go of the folder."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join()
        self._abandon_segment()
        os.close(self._lock)

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._pending and not self._closing:
                    self._ready.wait()
                if not self._pending:
                    return
                count = _group(self._pending)
                batch, self._pending = self._pending[:count], self._pending[count:]
            self._commit(batch)

    def _commit(self, batch: list[tuple[LogRecord, Future[Position]]]) -> None:
        sizes = [encoded_size(record) for record, _ in batch]
        try:
            fd = self._open_segment(sum(sizes))
            self._write(fd, [part for record, _ in batch for part in encode(record, self._seed)])
        except OSError as error:
            self._settle_failed(batch, error)
        else:
            self.last_error = None
            ends = []
            for size in sizes:
                self._size += size
                ends.append(Position(self._segment, self._size))
            self._release(sum(sizes))
            for (_, future), end in zip(batch, ends, strict=True):
                future.set_result(end)

    def _settle_failed(
        self, batch: list[tuple[LogRecord, Future[Position]]], error: OSError
    ) -> None:
        self.last_error = f"{error.strerror or error} in {self._folder}"
        _log.error("wal_write_failed", error=self.last_error, requests=len(batch))
        self._release(sum(encoded_size(record) for record, _ in batch))
        for _, future in batch:
            future.set_exception(
                Retryable(f"the write-ahead log cannot be written: {error}", DISK_TRIES_AGAIN)
            )

    def _release(self, size: int) -> None:
        with self._ready:
            self._queued_bytes -= size

    def _write(self, fd: int, buffers: list[bytes]) -> None:
        try:
            self._disk.write(fd, buffers)
        except OSError:
            # A partial record would hide what follows it; if it cannot be cut off, move on.
            try:
                os.ftruncate(fd, self._size)
            except OSError:
                self._abandon_segment()
            raise
        try:
            self._disk.sync(fd)
        except OSError:
            # After a failed sync the kernel may have dropped the pages: never trust this file.
            self._abandon_segment()
            raise
        self.syncs += 1

    def _open_segment(self, wanted: int) -> int:
        if self._fd is not None:
            if self._size == FIRST_OFFSET or self._size + wanted <= self._segment_bytes:
                return self._fd
            self._abandon_segment()
        self._segment += 1
        path = segment_path(self._folder, self._segment)
        mark = new_mark()
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            self._disk.write(fd, [mark])
            self._disk.sync(fd)
            _sync_folder(self._folder)
        except OSError:
            os.close(fd)
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        self._fd, self._size, self._seed = fd, FIRST_OFFSET, seed_of(mark) or 0
        return fd

    def _abandon_segment(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None


def _group(pending: Sequence[tuple[LogRecord, Future[Position]]]) -> int:
    """Count how many queued records to write at once: at least one, about GROUP_BYTES."""
    size = 0
    for count, (record, _) in enumerate(pending):
        size += len(record.body)
        if size > GROUP_BYTES and count:
            return count
    return len(pending)


def _lock(folder: Path) -> int:
    fd = os.open(folder / "writer.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise ConfigError(
            f"another receiver writes to {folder}: stop it, or give this one its own --data folder"
        ) from error
    return fd


def _recover(folder: Path) -> int:
    """Cut the torn tail off the newest segment; return the newest number that was ever used."""
    segments = list_segments(folder)
    if not segments:
        return 0
    newest = segments[-1]
    path = segment_path(folder, newest)
    opened = open_segment(path, os.O_RDWR)
    if opened is None:
        return newest
    fd, seed = opened
    try:
        if seed is None or _cut_torn_tail(fd, newest, seed) == FIRST_OFFSET:
            path.unlink()  # nothing whole in it; its number is not used again
        _sync_folder(folder)
    finally:
        os.close(fd)
    return newest


def _cut_torn_tail(fd: int, segment: int, seed: int) -> int:
    """Return the size after the cut. Damage with whole records behind it is left to the reader."""
    offset = FIRST_OFFSET
    while (found := read_at(fd, offset, seed)) is not None:
        offset = found[1]
    size = os.fstat(fd).st_size
    if size == offset or resync(fd, offset, seed) is not None:
        return size
    os.ftruncate(fd, offset)
    os.fdatasync(fd)
    _log.warning("wal_torn_tail_cut", segment=segment, bytes=size - offset)
    return offset


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
