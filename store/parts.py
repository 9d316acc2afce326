"""Reading traces whole: the spans of a part, wherever in time they were stored.

A "part" of a trace is what belongs together: spans that start within the trace window of each
other, one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store.engine import Engine
from store.evaluation import EVENT, LABEL, NAME, SCORE, Evaluation, score_of
from store.span_set import (
    NUMBERS,
    WORDS,
    Rows,
    SpanSet,
    Words,
    layers_of,
    numbers_of,
    words_of,
)

SECOND = 1_000_000_000
BUCKET_S = 10
_LISTED = 2000  # traces named in one statement: bounds its text
Said = Mapping[tuple[int, int], Sequence[Evaluation]]
"""What copies of spans say of answers, by a span's id and the copy's version."""
_STEPS = 50  # a part that goes on over more windows than this is taken as far as it was read


@dataclass(frozen=True, slots=True)
class Reach:
    """From when to when (ns of span start, inclusive) traces are read."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Extents:
    """When the spans of each trace start: `first` and `last`, in the order of `traces`."""

    traces: Sequence[bytes]
    first: Rows
    last: Rows


def clusters(first: Rows, last: Rows, window: int) -> Iterator[Reach]:
    """Cut the touched traces, sorted by `first`, where nobody's window reaches over the gap.

    One late span beside live traffic would otherwise make everything between be read.
    """
    if not len(first):
        return
    reached = np.maximum.accumulate(last) + window
    cuts = np.flatnonzero(first[1:] - window > reached[:-1]) + 1
    for begin, end in zip([0, *cuts], [*cuts, len(first)], strict=True):
        yield Reach(int(first[begin]) - window, int(reached[end - 1]))


def read_whole(engine: Engine, seq: int, reach: Reach, window: int) -> pa.Table:
    """Read the spans of a batch's traces, and further where one goes on beyond `reach`.

    The table has every copy of every span; `survivors` makes a `SpanSet` of it.
    """
    batch = "trace_id IN (SELECT trace_id FROM spans WHERE seq = {seq:UInt64})"
    spans = _read(engine, batch, reach, seq)
    for _ in range(_STEPS if spans.num_rows else 0):
        known = extents(spans)
        beyond = (known.first - window < reach.first) | (known.last + window > reach.last)
        if not beyond.any():
            break
        growing = [known.traces[number] for number in np.flatnonzero(beyond).tolist()]
        reach = Reach(
            int(known.first[beyond].min()) - window, int(known.last[beyond].max()) + window
        )
        more = _read_listed(engine, growing, reach, seq)
        is_old = pc.is_in(spans.column("trace_id"), pa.array(growing, pa.binary(16)))
        if more.num_rows == pc.sum(is_old).as_py():
            break
        spans = pa.concat_tables([spans.filter(pc.invert(is_old)), more])
    return spans


def extents(spans: pa.Table) -> Extents:
    """Find when each trace's first and last span starts."""
    trace = words_of(spans.column("trace_id"))
    start = spans.column("start_ns").to_numpy()
    first = np.full(len(trace.known), np.iinfo(np.int64).max)
    last = np.full(len(trace.known), np.iinfo(np.int64).min)
    np.minimum.at(first, trace.codes, start)
    np.maximum.at(last, trace.codes, start)
    return Extents(trace.known[1:].tolist(), first[1:], last[1:])


def read_evaluations(engine: Engine, spans: pa.Table) -> Said:
    """Read the evaluations that these spans hold, mostly none; by id and version of the copy."""
    holding = spans.filter(pc.greater(spans.column("n_evaluations"), 0))
    found: dict[tuple[int, int], list[Evaluation]] = {}
    if not holding.num_rows:
        return found
    traces = holding.column("trace_id").unique().to_pylist()
    start = holding.column("start_ns").to_numpy()
    first, last = int(start.min()) // SECOND, int(start.max()) // SECOND
    for begin in range(0, len(traces), _LISTED):
        listed = ", ".join(f"unhex('{one.hex()}')" for one in traces[begin : begin + _LISTED])
        for row in engine.rows(
            f"""
SELECT cityHash64(trace_id, spans.span_id) AS id, version, toUnixTimestamp64Nano(end) AS end_ns,
  eval_name, eval_score, eval_label,
  arrayFilter((t, n) -> n = '{EVENT}', `events.time`, `events.name`) AS at,
  arrayFilter((a, n) -> n = '{EVENT}', `events.attributes`, `events.name`) AS events,
  arrayMap(t -> toUnixTimestamp64Nano(t), at) AS at_ns, arrayMap(a -> a['{NAME}'], events) AS names,
  arrayMap(a -> a['{SCORE}'], events) AS scores, arrayMap(a -> a['{LABEL}'], events) AS labels
FROM spans
PREWHERE trace_id IN ({listed}) AND bucket >= toDateTime({first // BUCKET_S * BUCKET_S}, 'UTC')
  AND bucket <= toDateTime({last}, 'UTC')
WHERE evaluations > 0"""
        ):
            said = [(row["end_ns"], row["eval_name"], row["eval_score"], row["eval_label"])]
            for at_ns, name, score, label in zip(
                row["at_ns"], row["names"], row["scores"], row["labels"], strict=True
            ):
                said.append((at_ns, name, score_of(score), label))
            found[row["id"], row["version"]] = [
                Evaluation(at_ns, name, score, label)
                for at_ns, name, score, label in said
                if score is not None or label
            ]
    return found


def survivors(spans: pa.Table, window: int, said: Said) -> SpanSet:
    """Keep one of the copies of each span: of contradictory ones the same whatever came first."""
    ids, start = spans.column("id").to_numpy(), spans.column("start_ns").to_numpy()
    version = spans.column("version").to_numpy()
    by_id = np.lexsort((version, ids))
    last = np.append(ids[by_id][1:] != ids[by_id][:-1], True)
    rows = by_id[last]
    rows = rows[np.lexsort((ids[rows], start[rows]))]
    words = {name: words_of(spans.column(f"w_{name}")).taken(rows) for name in WORDS}
    numbers = {name: numbers_of(spans.column(f"n_{name}"))[rows] for name in NUMBERS}
    trace = words_of(spans.column("trace_id")).taken(rows)
    return SpanSet(
        part=parts_of(trace, start[rows], window),
        id=ids[rows],
        parent_id=spans.column("parent_id").to_numpy()[rows],
        trace_id=trace,
        span_id=_raw(spans.column("span_id"), 8)[rows],
        layer=layers_of(words["layer"]),
        kind=spans.column("kind").to_numpy()[rows],
        status_code=spans.column("status_code").to_numpy()[rows],
        start_ns=start[rows],
        end_ns=spans.column("end_ns").to_numpy()[rows],
        words=words,
        numbers=numbers,
        evaluations={
            row: found
            for row in np.flatnonzero(numbers["evaluations"] > 0).tolist()
            if (found := said.get((int(ids[rows[row]]), int(version[rows[row]]))))
        },
    )


def parts_of(trace: Words, start_ns: Rows, window: int) -> Rows:
    """Give each trace part a number: a trace falls apart where no span starts for a window."""
    order = np.lexsort((start_ns, trace.codes))
    begins = np.ones(len(order), bool)
    begins[1:] = np.diff(trace.codes[order]) != 0
    begins[1:] |= np.diff(start_ns[order]) > window
    part = np.empty(len(order), np.int64)
    part[order] = np.cumsum(begins)
    return part


def _read_listed(engine: Engine, traces: Sequence[bytes], reach: Reach, seq: int) -> pa.Table:
    found = []
    for start in range(0, len(traces), _LISTED):
        listed = ", ".join(f"unhex('{one.hex()}')" for one in traces[start : start + _LISTED])
        found.append(_read(engine, f"trace_id IN ({listed})", reach, seq))
    return pa.concat_tables(found)


def _read(engine: Engine, traces: str, reach: Reach, seq: int) -> pa.Table:
    words = ", ".join(f"{column} AS w_{column}" for column in WORDS)
    numbers = ", ".join(f"toFloat64({column}) AS n_{column}" for column in NUMBERS)
    first, last = reach.first // SECOND, reach.last // SECOND
    # The dictionaries of LowCardinality columns come as they are stored: nothing is looked up.
    return engine.arrow(
        f"""
SELECT trace_id, span_id, version, toInt64(kind) AS kind, toInt64(status_code) AS status_code,
  cityHash64(trace_id, spans.span_id) AS id,
  if(parent_span_id = toFixedString('', 8), 0, cityHash64(trace_id, parent_span_id)) AS parent_id,
  toUnixTimestamp64Nano(start) AS start_ns, toUnixTimestamp64Nano(end) AS end_ns,
  {words}, {numbers}
FROM spans
PREWHERE {traces} AND bucket >= toDateTime({first // BUCKET_S * BUCKET_S}, 'UTC')
  AND bucket <= toDateTime({last}, 'UTC')
WHERE start_ns >= {reach.first} AND start_ns <= {reach.last}
SETTINGS output_format_arrow_low_cardinality_as_dictionary = 1""",
        {"seq": seq},
    )


def _raw(column: pa.ChunkedArray, width: int) -> np.ndarray:
    """See fixed-width bytes as they lie in memory."""
    chunks = [
        np.frombuffer(chunk.buffers()[1], f"V{width}", len(chunk), chunk.offset * width)
        for chunk in column.chunks
    ]
    return np.concatenate(chunks)
