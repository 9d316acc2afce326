from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import ConfigError, Retryable
from collector.wal import LogWriter, OsDisk
from collector.wal_reader import BEGINNING, LogReader
from collector.wal_records import FIRST_OFFSET, LogRecord, Position, list_segments, segment_path

WAIT_S = 10


def record(number: int, size: int = 20) -> LogRecord:
    return LogRecord(
        body=number.to_bytes(4, "big") * (size // 4),
        tenant="acme",
        source="key:gw",
        received_ns=1_000 + number,
        spans=1,
    )


def write(folder: Path, *records: LogRecord, segment_bytes: int = 1 << 20) -> list[Position]:
    writer = LogWriter(folder, segment_bytes=segment_bytes)
    futures = [writer.append(each) for each in records]
    positions = [future.result(WAIT_S) for future in futures]
    writer.close()
    return positions


def read_all(folder: Path, start: Position = BEGINNING) -> list[LogRecord]:
    return [entry.record for entry in LogReader(folder).read(start).entries]


class BrokenDisk(OsDisk):
    """A disk that fails on demand."""

    def __init__(self) -> None:
        self.write_error: OSError | None = None
        self.sync_error: OSError | None = None
        self.syncs = 0

    def write(self, fd: int, buffers: Sequence[bytes]) -> None:
        if self.write_error is not None:
            os.write(fd, b"".join(buffers)[:7])  # full disks take a part first
            raise self.write_error
        super().write(fd, buffers)

    def sync(self, fd: int) -> None:
        if self.sync_error is not None:
            raise self.sync_error
        self.syncs += 1
        super().sync(fd)


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    written = [record(number) for number in range(5)]
    write(tmp_path, *written)

    assert read_all(tmp_path) == written


def test_an_append_is_synced_before_its_future_resolves(tmp_path: Path) -> None:
    disk = BrokenDisk()
    writer = LogWriter(tmp_path, disk=disk)

    writer.append(record(1)).result(WAIT_S)

    assert disk.syncs == 2  # the new segment's mark, and the record
    writer.close()


def test_one_sync_covers_everything_queued(tmp_path: Path) -> None:
    gate = threading.Event()

    class SlowDisk(BrokenDisk):
        def sync(self, fd: int) -> None:
            gate.wait(WAIT_S)
            super().sync(fd)

    disk = SlowDisk()
    writer = LogWriter(tmp_path, disk=disk)
    first = writer.append(record(0))
    others = [writer.append(record(number)) for number in range(1, 200)]
    gate.set()
    for future in [first, *others]:
        future.result(WAIT_S)

    assert disk.syncs <= 4
    writer.close()


def test_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "wal"
    write(folder, record(1))

    assert folder.stat().st_mode & 0o777 == 0o700
    assert segment_path(folder, 1).stat().st_mode & 0o777 == 0o600


def test_segments_are_cut_at_their_size_and_read_as_one_log(tmp_path: Path) -> None:
    written = [record(number, size=400) for number in range(20)]
    writer = LogWriter(tmp_path, segment_bytes=1000)
    for each in written:
        writer.append(each).result(WAIT_S)
    writer.close()

    assert len(list_segments(tmp_path)) == 10
    assert read_all(tmp_path) == written


def test_a_torn_tail_at_every_byte_costs_only_the_torn_record(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    ends = write(origin, *(record(number) for number in range(3)))
    whole = segment_path(origin, 1).read_bytes()
    for size in range(len(whole) + 1):
        folder = tmp_path / f"torn-{size}"
        folder.mkdir()
        segment_path(folder, 1).write_bytes(whole[:size])
        intact = [record(n) for n, end in enumerate(ends) if end.offset <= size]

        assert read_all(folder) == intact
        write(folder, record(9))
        assert read_all(folder) == [*intact, record(9)]


@settings(max_examples=60, deadline=None)
@given(place=st.integers(FIRST_OFFSET, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_exactly_the_record_it_is_in(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    ends = write(folder, *(record(number) for number in range(8)))
    path = segment_path(folder, 1)
    data = bytearray(path.read_bytes())
    place = FIRST_OFFSET + place % (len(data) - FIRST_OFFSET)
    data[place] ^= 1 << bit
    path.write_bytes(data)
    hit = next(number for number, end in enumerate(ends) if place < end.offset)

    write(folder, record(9))  # makes the damaged segment an old one

    kept = [record(number) for number in range(8) if number != hit]
    assert read_all(folder) == [*kept, record(9)]


def test_the_reader_waits_at_a_tail_that_is_not_whole_yet(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    write(origin, record(0), record(1))
    whole = segment_path(origin, 1).read_bytes()
    folder = tmp_path / "growing"
    folder.mkdir()
    path = segment_path(folder, 1)
    reader, position, seen = LogReader(folder), BEGINNING, []
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        found = reader.read(position)
        position = found.end
        seen += [entry.record for entry in found.entries]

    assert seen == [record(0), record(1)]
    assert reader.damaged_bytes == 0


def test_a_reader_in_another_process_sees_every_record_once_in_order(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from collector.wal_reader import *\n"
        "reader, at, seen = LogReader(pathlib.Path(sys.argv[1])), BEGINNING, []\n"
        "while len(seen) < 500:\n"
        "    found = reader.read(at, max_spans=7); at = found.end\n"
        "    seen += [e.record.received_ns - 1000 for e in found.entries]\n"
        "    reader.free(at)\n"
        "assert seen == list(range(500)), seen\n"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=Path(__file__).parents[2]
    )
    writer = LogWriter(tmp_path, segment_bytes=2000)
    for number in range(500):
        writer.append(record(number)).result(WAIT_S)

    assert reader.wait(WAIT_S) == 0
    writer.close()
    assert len(list_segments(tmp_path)) <= 2


def test_only_segments_before_the_consumed_position_are_freed(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=100)
    for number in range(4):
        writer.append(record(number, size=80)).result(WAIT_S)
    writer.close()
    reader = LogReader(tmp_path)
    middle = reader.read(BEGINNING, max_spans=2).end

    reader.free(middle)

    assert list_segments(tmp_path) == [2, 3, 4]
    assert read_all(tmp_path, middle) == [record(2, size=80), record(3, size=80)]


def test_a_bounded_read_takes_at_least_one_record(tmp_path: Path) -> None:
    write(tmp_path, record(0), record(1))

    assert len(LogReader(tmp_path).read(BEGINNING, max_bytes=1).entries) == 1


def test_a_range_is_read_again_exactly(tmp_path: Path) -> None:
    write(tmp_path, *(record(number) for number in range(6)))
    reader = LogReader(tmp_path)
    first = reader.read(BEGINNING, max_spans=3)

    assert reader.read(first.start, until=first.end) == first


def test_a_number_is_not_used_again_after_a_power_cut_took_the_segment(tmp_path: Path) -> None:
    end = write(tmp_path, record(0))[0]
    segment_path(tmp_path, 1).write_bytes(b"")

    write(tmp_path, record(1))

    assert read_all(tmp_path, end) == [record(1)]


def test_a_full_disk_is_retryable_and_heals_by_itself(tmp_path: Path) -> None:
    disk = BrokenDisk()
    writer = LogWriter(tmp_path, disk=disk)
    writer.append(record(0)).result(WAIT_S)
    disk.write_error = OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(Retryable, match="No space left") as refused:
        writer.append(record(1)).result(WAIT_S)

    assert refused.value.after is not None
    assert writer.last_error is not None
    disk.write_error = None
    writer.append(record(2)).result(WAIT_S)
    assert writer.last_error is None
    writer.close()
    assert read_all(tmp_path) == [record(0), record(2)]


def test_a_disk_that_is_full_from_the_start_heals_too(tmp_path: Path) -> None:
    disk = BrokenDisk()
    disk.write_error = OSError(errno.ENOSPC, "No space left on device")
    writer = LogWriter(tmp_path, disk=disk)
    with pytest.raises(Retryable):
        writer.append(record(0)).result(WAIT_S)
    disk.write_error = None
    writer.append(record(1)).result(WAIT_S)
    writer.close()

    assert read_all(tmp_path) == [record(1)]


def test_a_segment_is_abandoned_after_a_failed_sync(tmp_path: Path) -> None:
    disk = BrokenDisk()
    writer = LogWriter(tmp_path, disk=disk)
    writer.append(record(0)).result(WAIT_S)
    disk.sync_error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(Retryable):
        writer.append(record(1)).result(WAIT_S)
    disk.sync_error = None

    position = writer.append(record(2)).result(WAIT_S)

    assert position.segment == 2
    writer.close()


def test_a_full_queue_refuses_at_once(tmp_path: Path) -> None:
    gate = threading.Event()

    class StuckDisk(BrokenDisk):
        def sync(self, fd: int) -> None:
            gate.wait(WAIT_S)
            super().sync(fd)

    writer = LogWriter(tmp_path, queue_bytes=300, disk=StuckDisk())
    accepted = writer.append(record(0, size=200))

    with pytest.raises(Retryable, match="queue is full"):
        writer.append(record(1, size=200))

    gate.set()
    accepted.result(WAIT_S)
    writer.append(record(2, size=200)).result(WAIT_S)
    writer.close()


def test_closing_finishes_what_is_queued(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    futures = [writer.append(record(number)) for number in range(50)]
    writer.close()

    assert all(future.done() for future in futures)
    assert len(read_all(tmp_path)) == 50
    with pytest.raises(Retryable):
        writer.append(record(99))


def test_two_receivers_cannot_write_one_log(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)

    with pytest.raises(ConfigError, match="another receiver"):
        LogWriter(tmp_path)

    writer.close()


def test_a_record_hidden_in_a_body_is_never_read(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    write(inner, record(666))
    smuggled = segment_path(inner, 1).read_bytes()[FIRST_OFFSET:]
    outer = tmp_path / "outer"
    carrier = LogRecord(smuggled, "evil", "key:evil", 1, 1)
    write(outer, record(0), carrier, record(1))
    path = segment_path(outer, 1)
    data = bytearray(path.read_bytes())
    data[data.index(b"evil")] ^= 1  # damage the carrier, so that a search for records begins
    path.write_bytes(data)

    write(outer, record(2))

    assert read_all(outer) == [record(0), record(1), record(2)]


def test_bytes_after_a_position_shrink_as_it_moves(tmp_path: Path) -> None:
    ends = write(tmp_path, record(0), record(1))
    reader = LogReader(tmp_path)

    assert reader.bytes_after(BEGINNING) == ends[1].offset - FIRST_OFFSET
    assert reader.bytes_after(ends[0]) == ends[1].offset - ends[0].offset
    assert reader.bytes_after(ends[1]) == 0
