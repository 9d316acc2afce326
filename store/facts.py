"""Keeps `facts` true: after a batch, the requests of every trace it touched are worked out anew.

Nothing is added to a fact: the stored spans of a touched trace are read whole, so the result does
not depend on the order, the repetition or the lateness of arrival. "Whole" means its part: spans of
a trace that start within `trace_window` of each other, one after another, belong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from store.engine import Engine
from store.fact_rows import changed, read_facts, write_facts
from store.parts import (
    BUCKET_S,
    SECOND,
    Extents,
    Reach,
    clusters,
    extents,
    read_evaluations,
    read_whole,
    survivors,
)
from store.requests import facts_of


class FactBuilder:
    """The pipeline's `FactSource`."""

    def __init__(self, engine: Engine, trace_window: timedelta = timedelta(minutes=10)) -> None:
        self._engine = engine
        self._window = round(trace_window.total_seconds() * SECOND)
        self._begun: int | None = None  # the batch that was worked on last

    def refresh(self, seq: int) -> Sequence[datetime]:
        """Work out the requests that batch `seq` changes; returns the 10-second buckets changed.

        Doing it again finds nothing to change in the facts, and returns every bucket that the
        batch touches: what is derived from them may not have been told the first time.
        """
        is_again = self._begun in {None, seq}  # a process's first batch may be its predecessor's
        self._begun = seq
        buckets = self._written(seq) if is_again else set()
        for reach in self._touched(seq):
            spans = read_whole(self._engine, seq, reach, self._window)
            if spans.num_rows:
                buckets |= self._replace(spans, seq)
        self._count_duplicates(seq)
        return [datetime.fromtimestamp(bucket, UTC) for bucket in sorted(buckets)]

    def _touched(self, seq: int) -> Iterator[Reach]:
        table = self._engine.arrow(
            "SELECT min(toUnixTimestamp64Nano(start)) AS first, "
            "max(toUnixTimestamp64Nano(start)) AS last FROM spans "
            "WHERE seq = {seq:UInt64} GROUP BY trace_id ORDER BY first",
            {"seq": seq},
        )
        if not table.num_rows:
            return iter(())
        first, last = (table.column(name).to_numpy() for name in ("first", "last"))
        return clusters(first, last, self._window)

    def _written(self, seq: int) -> set[int]:
        """Name the buckets of what an earlier try wrote: what it took away is nowhere else."""
        rows = self._engine.rows(
            "SELECT DISTINCT intDiv(toUnixTimestamp64Nano(start), 10000000000) * 10 AS bucket "
            "FROM facts WHERE version IN ({gone:UInt64}, {made:UInt64})",
            {"gone": 2 * seq, "made": 2 * seq + 1},
        )
        return {row["bucket"] for row in rows}

    def _replace(self, spans: pa.Table, seq: int) -> set[int]:
        """Write the facts of these spans in place of what was there; returns all their buckets."""
        said = read_evaluations(self._engine, spans)
        new = facts_of(survivors(spans, self._window, said))
        old = read_facts(self._engine, seq, reaches_of_facts(extents(spans)))
        write_facts(self._engine, changed(old, new), seq)
        starts = np.array([*old.get("start_ns", ()), *new.get("start_ns", ())], np.int64)
        return set((starts // SECOND // BUCKET_S * BUCKET_S).tolist())

    def _count_duplicates(self, seq: int) -> None:
        """Note how many spans of the batch were there already, or came twice in it."""
        self._engine.execute(
            """
INSERT INTO ingest_duplicates (seq, source, tenant, duplicate)
SELECT {seq:UInt64}, source, tenant, toUInt64(greatest(0, toInt64(accepted) - toInt64(fresh)))
FROM (
  SELECT source, tenant, sum(accepted) AS accepted FROM ingest_batches
  WHERE seq = {seq:UInt64} GROUP BY source, tenant
) AS came
LEFT JOIN (
  SELECT source, credential_tenant AS tenant, uniqExact(trace_id, span_id) AS fresh FROM spans
  WHERE seq = {seq:UInt64} AND (trace_id, span_id) NOT IN (
    SELECT trace_id, span_id FROM spans
    WHERE seq < {seq:UInt64} AND bucket IN (SELECT bucket FROM spans WHERE seq = {seq:UInt64})
  )
  GROUP BY source, tenant
) AS kept USING (source, tenant)""",
            {"seq": seq},
        )


def reaches_of_facts(found: Extents) -> Extents:
    """Say, by trace, from when to when there may be facts made of these spans before.

    Of every copy, not only of the survivors, and of whole buckets: a copy that began at another
    time may have been the only one when the fact was made, and merged away since.
    """
    bucket = BUCKET_S * SECOND
    return Extents(
        found.traces, found.first // bucket * bucket, found.last // bucket * bucket + bucket - 1
    )
