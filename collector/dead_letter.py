"""Requests that the store cannot take: kept as they came, with the reason, to be replayed later.

Each is two files: `SEGMENT-OFFSET.binpb`, which `tokenweir replay` reads, and a `.json` beside it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from base.durations import format_instant, parse_instant
from collector.wal_records import Entry

FOLDER = "dead-letter"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What is known about one request that was set aside."""

    file: Path
    reason: str
    tenant: str
    source: str
    spans: int
    received: datetime
    size_bytes: int


class DeadLetters:
    """The folder. Putting the same log entry twice leaves one letter."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, entry: Entry, reason: str) -> None:
        """Keep a request. It is on disk when this returns."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = entry.record
        stem = f"{entry.start.segment:012d}-{entry.start.offset:010d}"
        note = {
            "reason": reason,
            "tenant": record.tenant,
            "source": record.source,
            "spans": record.spans,
            "received": format_instant(datetime.fromtimestamp(record.received_ns / 1e9, UTC)),
        }
        _write(self._folder / f"{stem}.binpb", record.body)
        _write(self._folder / f"{stem}.json", json.dumps(note).encode())

    def all(self) -> list[DeadLetter]:
        """Return every letter, oldest first. One that somebody deletes meanwhile is left out."""
        found = (_read(path) for path in sorted(self._folder.glob("*.json")))
        return [letter for letter in found if letter is not None]


def _read(path: Path) -> DeadLetter | None:
    body = path.with_suffix(".binpb")
    try:
        note = json.loads(path.read_text("utf-8"))
        size = body.stat().st_size
    except FileNotFoundError:
        return None
    return DeadLetter(
        file=body,
        reason=note["reason"],
        tenant=note["tenant"],
        source=note["source"],
        spans=note["spans"],
        received=parse_instant(note["received"]),
        size_bytes=size,
    )


def _write(path: Path, data: bytes) -> None:
    draft = path.with_name(path.name + ".tmp")
    fd = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    draft.replace(path)
