"""Keeps `facts` true: after a batch, the requests of every trace it touched are worked out anew.

Nothing is added to a fact: the stored spans of a touched trace are read whole, so the result does
not depend on the order, the repetition or the lateness of arrival. "Whole" means its part: spans of
a trace that start within `trace_window` of each other, one after another, belong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa

from store.engine import Engine
from store.fact_rows import changed, read_facts, write_facts
from store.requests import NUMBERS, TEXTS, facts_of

_SECOND = 1_000_000_000
_BUCKET_S = 10
_LISTED = 2000  # traces named in one statement: bounds its text
_STEPS = 50  # a part that goes on over more windows than this is taken as far as it was read


@dataclass(frozen=True, slots=True)
class Reach:
    """From when to when (ns of span start, inclusive) traces are read."""

    first: int
    last: int


class FactBuilder:
    """The pipeline's `FactSource`."""

    def __init__(self, engine: Engine, trace_window: timedelta = timedelta(minutes=10)) -> None:
        self._engine = engine
        self._window = round(trace_window.total_seconds() * _SECOND)
        self._begun: int | None = None  # the batch that was worked on last

    def refresh(self, seq: int) -> Sequence[datetime]:
        """Work out the requests that batch `seq` changes; returns the 10-second buckets changed.

        Doing it again finds nothing to change in the facts, and returns every bucket that the
        batch touches: what is derived from them may not have been told the first time.
        """
        is_again = self._begun in {None, seq}  # a process's first batch may be its predecessor's
        self._begun = seq
        touched = self._touched(seq)
        buckets = self._written(seq) if is_again else set()
        for reach in clusters(touched, self._window):
            spans = self._whole_parts(seq, reach)
            buckets |= self._replace(spans, seq)
        self._count_duplicates(seq)
        return [datetime.fromtimestamp(bucket, UTC) for bucket in sorted(buckets)]

    def _touched(self, seq: int) -> pd.DataFrame:
        table = self._engine.arrow(
            "SELECT min(toUnixTimestamp64Nano(start)) AS first, "
            "max(toUnixTimestamp64Nano(start)) AS last FROM spans "
            "WHERE seq = {seq:UInt64} GROUP BY trace_id ORDER BY first",
            {"seq": seq},
        )
        return table.to_pandas() if table.num_rows else pd.DataFrame({"first": [], "last": []})

    def _written(self, seq: int) -> set[int]:
        """Name the buckets of what an earlier try wrote: what it took away is found nowhere else."""
        rows = self._engine.rows(
            "SELECT DISTINCT intDiv(toUnixTimestamp64Nano(start), 10000000000) * 10 AS bucket "
            "FROM facts WHERE version IN ({gone:UInt64}, {made:UInt64})",
            {"gone": 2 * seq, "made": 2 * seq + 1},
        )
        return {row["bucket"] for row in rows}

    def _whole_parts(self, seq: int, reach: Reach) -> pd.DataFrame:
        """Read the spans, and further where a trace reaches to the edge of what was read."""
        spans = self._read(
            "trace_id IN (SELECT trace_id FROM spans WHERE seq = {seq:UInt64})", reach, seq
        )
        for _ in range(_STEPS):
            extent = spans.groupby("trace_id")["start_ns"].agg(["min", "max"])
            early = extent["min"] - self._window < reach.first
            late = extent["max"] + self._window > reach.last
            growing = extent[early | late]
            if growing.empty:
                break
            reach = Reach(
                int(growing["min"].min()) - self._window, int(growing["max"].max()) + self._window
            )
            more = self._read_listed(list(growing.index), reach, seq)
            is_old = spans["trace_id"].isin(growing.index)
            if len(more) == is_old.sum():
                break
            spans = pd.concat([spans[~is_old], more])
        return spans

    def _read_listed(self, traces: Sequence[bytes], reach: Reach, seq: int) -> pd.DataFrame:
        found = []
        for start in range(0, len(traces), _LISTED):
            listed = ", ".join(f"unhex('{one.hex()}')" for one in traces[start : start + _LISTED])
            found.append(self._read(f"trace_id IN ({listed})", reach, seq))
        return pd.concat(found)

    def _read(self, traces: str, reach: Reach, seq: int) -> pd.DataFrame:
        texts = ", ".join(f"toString({column}) AS t_{column}" for column in TEXTS)
        numbers = ", ".join(f"toFloat64({column}) AS n_{column}" for column in NUMBERS)
        first, last = reach.first // _SECOND, reach.last // _SECOND
        table = self._engine.arrow(
            f"""
SELECT trace_id, lower(hex(span_id)) AS span_id, version, kind, status_code,
  cityHash64(trace_id, spans.span_id) AS id,
  if(parent_span_id = toFixedString('', 8), 0, cityHash64(trace_id, parent_span_id)) AS parent_id,
  toUnixTimestamp64Nano(start) AS start_ns, toUnixTimestamp64Nano(end) AS end_ns,
  {texts}, {numbers}
FROM spans
PREWHERE {traces} AND bucket >= toDateTime({first // _BUCKET_S * _BUCKET_S}, 'UTC')
  AND bucket <= toDateTime({last}, 'UTC')
WHERE start_ns >= {reach.first} AND start_ns <= {reach.last}""",
            {"seq": seq},
        )
        if not table.num_rows:
            return pd.DataFrame({"trace_id": [], "start_ns": [], "id": []})
        spans = frame_of(table)
        spans.columns = pd.Index(
            [name.removeprefix("t_").removeprefix("n_") for name in table.column_names]
        )
        return spans

    def _replace(self, spans: pd.DataFrame, seq: int) -> set[int]:
        """Write the facts of these spans in place of what was there; returns all their buckets."""
        if spans.empty:
            return set()
        kept = survivors(spans)
        new = facts_of(kept.assign(part=parts_of(kept, self._window)))
        old = read_facts(self._engine, seq, reaches_of_facts(spans))
        write_facts(self._engine, changed(old, new), seq)
        starts = [*old.get("start_ns", ()), *new.get("start_ns", ())]
        return {int(start) // _SECOND // _BUCKET_S * _BUCKET_S for start in starts}

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


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Make a frame whose texts are shared objects: pandas' own text columns copy at every step."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type):
            encoded = column.combine_chunks().dictionary_encode()
            known = np.array(encoded.dictionary.to_pylist(), dtype=object)
            columns[name] = pd.Series(known[encoded.indices.to_numpy()], dtype=object)
        else:
            columns[name] = column.to_pandas()
    return pd.DataFrame(columns)


def clusters(touched: pd.DataFrame, window: int) -> Iterator[Reach]:
    """Cut the touched traces, sorted by `first`, where nobody's window reaches over the gap.

    One late span beside live traffic would otherwise make everything between be read.
    """
    current: Reach | None = None
    for begin, end in zip(touched["first"], touched["last"], strict=True):
        near = Reach(int(begin) - window, int(end) + window)
        if current is None or near.first > current.last:
            if current is not None:
                yield current
            current = near
        else:
            current = Reach(current.first, max(current.last, near.last))
    if current is not None:
        yield current


def survivors(spans: pd.DataFrame) -> pd.DataFrame:
    """Keep one of the copies of each span: of contradictory ones the same whatever came first."""
    ordered = spans.sort_values(["version"], kind="stable")
    return ordered.drop_duplicates("id", keep="last").drop(columns=["version"])


def reaches_of_facts(spans: pd.DataFrame) -> pd.DataFrame:
    """Say, by trace, from when to when (min, max) there may be facts made of these spans before.

    Of every copy, not only of the survivors, and of whole buckets: a copy that began at another
    time may have been the only one when the fact was made, and merged away since.
    """
    extent = spans.groupby("trace_id")["start_ns"].agg(["min", "max"])
    bucket = _BUCKET_S * _SECOND
    return extent.assign(
        min=extent["min"] // bucket * bucket, max=extent["max"] // bucket * bucket + bucket - 1
    )


def parts_of(spans: pd.DataFrame, window: int) -> pd.Series:
    """Give each trace part a number: a trace falls apart where no span starts for a window."""
    ordered = spans.sort_values(["trace_id", "start_ns"], kind="stable")
    other = ordered["trace_id"] != ordered["trace_id"].shift()
    apart = ordered["start_ns"].diff() > window
    return (other | apart).cumsum().reindex(spans.index)
