"""How far the log has been consumed: one small file, replaced as a whole and synced."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import ConfigError
from collector.wal_reader import BEGINNING
from collector.wal_records import Position

FILE = "progress.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything before `consumed` is in the store, with its facts.

    While a batch is on its way, `inflight` is its end and `seq` its number: after a crash exactly
    that range is done again, under the same number, and the store drops what it has already.
    """

    consumed: Position = BEGINNING
    seq: int = 0
    inflight: Position | None = None


class ProgressFile:
    """The file, next to the log that it speaks of, so that both are kept or lost together."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def load(self) -> Progress:
        """Read it; a log without one has not been consumed at all."""
        try:
            text = self._path.read_text("utf-8")
        except FileNotFoundError:
            return Progress()
        try:
            document = json.loads(text)
            inflight = document["inflight"]
            return Progress(
                consumed=_position(document["consumed"]),
                seq=_count(document["seq"]),
                inflight=None if inflight is None else _position(inflight),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{self._path} cannot be read ({error}): delete it to insert the whole log again; "
                "spans that are stored already are not counted twice"
            ) from error

    def save(self, progress: Progress) -> None:
        """Write it so that either the old or the new content survives a power cut."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_suffix(".tmp")
        fd = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(_document(progress), file)
            file.flush()
            os.fsync(fd)
        draft.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _position(pair: Any) -> Position:
    segment, offset = pair
    return Position(_count(segment), _count(offset))


def _count(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is not a count")
    return number


def _document(progress: Progress) -> dict[str, Any]:
    inflight = progress.inflight
    return {
        "consumed": [progress.consumed.segment, progress.consumed.offset],
        "seq": progress.seq,
        "inflight": None if inflight is None else [inflight.segment, inflight.offset],
    }
