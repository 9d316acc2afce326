"""Spans into the store: one insert per batch, exactly once per token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from store.engine import Engine
from store.otlp import LANDING, MESSAGE, SCHEMA, SpanRecord, framed
from store.otlp_split import pieces

__all__ = ["SpanRecord", "SpanStore"]

CHUNK_BYTES = 32_000_000  # bounds the file and the part that one statement makes


class SpanStore:
    """Writes export requests as they came; the engine parses them.

    The landing table and its view are made by `collector.view.install`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def insert(self, records: Sequence[SpanRecord], token: str, seq: int) -> None:
        """Insert a batch; the same `token` again changes nothing.

        Raises `base.errors.Permanent` where the engine can't read a record: bisect, dead-letter it.
        """
        for number, chunk in enumerate(_chunks(records)):
            data = b"".join(framed(record, seq) for record in chunk)
            self._engine.insert_protobuf(LANDING, data, SCHEMA, MESSAGE, f"{token}-{number}")


def _chunks(records: Sequence[SpanRecord]) -> Iterator[list[SpanRecord]]:
    """Cut a batch evenly where the engine's memory asks for it; the same batch is cut alike."""
    small = [
        replace(record, body=piece)
        for record in records
        for piece in pieces(record.body, CHUNK_BYTES)
    ]
    total = sum(len(record.body) for record in small)
    even = total / max(1, ceil(total / CHUNK_BYTES))
    chunk: list[SpanRecord] = []
    size = 0
    for record in small:
        chunk.append(record)
        size += len(record.body)
        if size >= even:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
