"""What the write-ahead log looks like on disk: segments of checksummed, length-prefixed records.

A segment is an 8-byte mark, 8 random bytes, and then records, back to back:

    magic "TWR1" | body bytes u32 | crc32 u32 | received ns u64 | spans u32 | tenant bytes u16 |
    source bytes u16 | tenant | source | body

The checksum covers everything but the magic and itself, and starts from the segment's random
bytes: a sender cannot hide a record with another tenant inside a body, to be found after damage.
Integers are little-endian.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

FIRST_OFFSET = 16
MAGIC = b"TWR1"
SUFFIX = ".wal"

_MARK = b"twwal-1\n"
_HEAD = struct.Struct("<4sII")
_META = struct.Struct("<QIHH")
_LENGTH = struct.Struct("<I")
_FIXED = _HEAD.size + _META.size


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the log: between two records, or at its beginning (0, 0)."""

    segment: int
    offset: int

    def __str__(self) -> str:
        return f"{self.segment}:{self.offset}"


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One acknowledged request.

    `body` is a protobuf ExportTraceServiceRequest. `tenant` is the credential's; empty means that
    the sender is trusted to name tenants itself.
    """

    body: bytes
    tenant: str
    source: str
    received_ns: int
    spans: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A record and the place it was read from."""

    record: LogRecord
    start: Position
    end: Position


def new_mark() -> bytes:
    """Make the first bytes of a segment."""
    return _MARK + os.urandom(FIRST_OFFSET - len(_MARK))


def seed_of(mark: bytes) -> int | None:
    """Return what the checksums of a segment start from; None when it has no whole mark."""
    if len(mark) < FIRST_OFFSET or not mark.startswith(_MARK):
        return None
    return zlib.crc32(mark)


def encode(record: LogRecord, seed: int) -> tuple[bytes, bytes]:
    """Return the bytes of a record in two parts, so that the body is not copied."""
    tenant, source = record.tenant.encode(), record.source.encode()
    meta = _META.pack(record.received_ns, record.spans, len(tenant), len(source)) + tenant + source
    checksum = _checksum(meta, record.body, seed)
    return _HEAD.pack(MAGIC, len(record.body), checksum) + meta, record.body


def encoded_size(record: LogRecord) -> int:
    """Count the bytes that `encode` would make."""
    return _FIXED + len(record.tenant.encode()) + len(record.source.encode()) + len(record.body)


def read_at(fd: int, offset: int, seed: int) -> tuple[LogRecord, int] | None:
    """Read the record that begins at `offset`, and the offset behind it.

    None means that no whole and intact record begins there: the end, a torn tail, or damage.
    """
    head = os.pread(fd, _FIXED, offset)
    if len(head) < _FIXED or not head.startswith(MAGIC):
        return None
    _, body_bytes, checksum = _HEAD.unpack_from(head)
    received_ns, spans, tenant_bytes, source_bytes = _META.unpack_from(head, _HEAD.size)
    names_bytes = tenant_bytes + source_bytes
    rest = _pread_all(fd, names_bytes + body_bytes, offset + _FIXED)
    if len(rest) < names_bytes + body_bytes:
        return None
    names, body = rest[:names_bytes], rest[names_bytes:]
    if _checksum(head[_HEAD.size :] + names, body, seed) != checksum:
        return None
    record = LogRecord(
        body=body,
        tenant=names[:tenant_bytes].decode(),
        source=names[tenant_bytes:].decode(),
        received_ns=received_ns,
        spans=spans,
    )
    return record, offset + _FIXED + len(rest)


def resync(fd: int, offset: int, seed: int) -> int | None:
    """Find the next intact record behind a damaged place; None when only a torn tail is left."""
    size = os.fstat(fd).st_size
    if size <= offset:
        return None
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as view:
        candidate = view.find(MAGIC, offset + 1)
        while candidate >= 0:
            if read_at(fd, candidate, seed) is not None:
                return candidate
            candidate = view.find(MAGIC, candidate + 1)
    return None


def open_segment(path: Path, flags: int = os.O_RDONLY) -> tuple[int, int | None] | None:
    """Open a segment and read its seed; None when it is gone."""
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        return None
    return fd, seed_of(os.pread(fd, FIRST_OFFSET, 0))


def segment_path(folder: Path, segment: int) -> Path:
    return folder / f"{segment:012d}{SUFFIX}"


def list_segments(folder: Path) -> list[int]:
    """Return the numbers of the segments in a folder, oldest first."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(n[: -len(SUFFIX)]) for n in names if n.endswith(SUFFIX) and n[:-4].isdigit())


def _checksum(meta: bytes, body: bytes, seed: int) -> int:
    return zlib.crc32(body, zlib.crc32(meta, zlib.crc32(_LENGTH.pack(len(body)), seed)))


def _pread_all(fd: int, count: int, offset: int) -> bytes:
    data = os.pread(fd, count, offset)
    while len(data) < count:  # Linux returns at most 2 GiB at once, and may return less
        more = os.pread(fd, count - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
