"""Spans of whole traces as arrays, one row per span: what facts are worked out from.

A row's number names the span; -1 is "nobody". Arrays, not frames: a batch has tens of thousands of
spans and dozens of columns, and what frames do between two steps costs more than the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.evaluation import Evaluation

Rows = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]
Texts = npt.NDArray[np.object_]

# The layers that a request is made of, from outside in; a span of any other one is no part of it.
LAYERS = ("gateway", "router", "client", "llm", "engine")
GATEWAY, ROUTER, CLIENT, LLM, ENGINE = range(len(LAYERS))
NO_LAYER = len(LAYERS)

# Text is '' when unknown.
WORDS = (
    "name", "layer", "service", "instance", "tenant", "route", "user_id", "feature", "app_version",
    "priority", "replica", "server_address", "server_port", "model", "response_model",
    "llm_request_id", "conversation_id", "task_id", "outcome", "outcome_reason", "finish_reason",
)  # fmt: skip
# NaN when unknown.
NUMBERS = (
    "http_status", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens",
    "total_tokens", "reported_cost_usd", "ttft_ms", "queue_ms", "prefill_ms", "decode_ms",
    "inference_ms", "e2e_ms", "latency_ms", "attempt", "streaming", "itl_p95_ms", "evaluations",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Words:
    """A text column: `codes` are places in `known`, whose first is ''."""

    codes: Rows
    known: Texts

    def at(self, rows: Rows) -> Texts:
        """Return the texts of these rows, '' for nobody's."""
        return self.known[np.where(rows >= 0, self.codes[rows], 0)]

    def taken(self, rows: Rows) -> Words:
        return Words(self.codes[rows], self.known)


@dataclass(frozen=True, slots=True)
class SpanSet:
    """Spans in the order of their start; `part` numbers the trace parts (see `store.parts`).

    `id` is unique, `parent_id` is 0 for none; `trace_id` and `span_id` are raw bytes. `layer` is
    a place in `LAYERS`, or `NO_LAYER`.
    """

    part: Rows
    id: Ids
    parent_id: Ids
    trace_id: Words
    span_id: npt.NDArray[np.void]
    layer: Rows
    kind: Rows
    status_code: Rows
    start_ns: Rows
    end_ns: Rows
    words: Mapping[str, Words]
    numbers: Mapping[str, Reals]
    evaluations: Mapping[int, Sequence[Evaluation]] = field(default_factory=dict)  # by row

    def __len__(self) -> int:
        return len(self.id)


def words_of(column: pa.ChunkedArray) -> Words:
    """Give the texts of a column numbers; an engine's dictionary is taken as it is."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    encoded = column.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks)
    known = np.array(["", *encoded.dictionary.to_pylist()], dtype=object)
    places = np.arange(1, len(known))
    places[known[1:] == ""] = 0
    return Words(places[encoded.indices.to_numpy().astype(np.int64)], known)


def numbers_of(column: pa.ChunkedArray) -> Reals:
    """Return a column's numbers, NaN where there is none."""
    return np.asarray(column.to_numpy(), np.float64)


def layers_of(layer: Words) -> Rows:
    """Return each span's place in `LAYERS`."""
    place = {name: number for number, name in enumerate(LAYERS)}
    return np.array([place.get(name, NO_LAYER) for name in layer.known], np.int64)[layer.codes]
