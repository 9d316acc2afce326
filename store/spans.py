"""Spans into the store: one insert per batch, exactly once per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from store.engine import Engine
from store.otlp import MESSAGE, SCHEMA, SpanRecord, framed

__all__ = ["InsertReport", "SpanRecord", "SpanStore"]


@dataclass(frozen=True, slots=True)
class InsertReport:
    """What one batch brought: `spans` counts every span sent, duplicates included."""

    spans: int


class SpanStore:
    """Writes export requests as they came; the engine parses them.

    The landing table and its view are made by `collector.view.install`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def insert(self, records: Sequence[SpanRecord], token: str, seq: int) -> InsertReport:
        """Insert a batch; the same `token` again changes nothing.

        Raises `base.errors.Permanent` where the engine can't read a record: bisect, dead-letter it.
        """
        if records:
            data = b"".join(framed(record, seq) for record in records)
            self._engine.insert_protobuf("otlp", data, SCHEMA, MESSAGE, token)
        counted = self._engine.rows(
            "SELECT sum(accepted) AS spans FROM ingest_batches WHERE seq = {seq:UInt64}",
            {"seq": seq},
        )
        return InsertReport(spans=int(counted[0]["spans"]))
