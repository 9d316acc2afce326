"""One trace: its spans as a tree, with tokens and dollars where they were spent."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from base.errors import BadInput
from cost.prices import PriceBook
from dashboards.facts import facts_of_trace
from store.columns import VOCABULARY_COLUMNS
from store.engine import Engine

MAX_SPANS = 50_000
_NO_PARENT = "0" * 16
_TOKENS = (
    "prompt_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "total_tokens",
)
_BANDS = ("queue_ms", "prefill_ms", "decode_ms", "ttft_ms")


@dataclass(frozen=True, slots=True)
class Span:
    """One span. `cost_usd` is what was spent in it and below; `depth` 0 is a root.

    `start_ns` and `end_ns` are as reported: skew is shown, never corrected.
    """

    id: str
    parent: str | None
    name: str
    layer: str
    service: str
    instance: str
    start: datetime
    end: datetime
    start_ns: int
    end_ns: int
    status: str
    status_message: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, str]
    events: Sequence[Mapping[str, Any]]
    tokens: Mapping[str, int | None]
    bands: Mapping[str, float | None]
    cost_usd: float | None = None
    depth: int = 0

    @property
    def duration_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the trace's requests, each counted once; None where none is known."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    requests: int
    conflicts: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Trace:
    """Spans in reading order: each parent before its children, children by start."""

    trace_id: str
    spans: tuple[Span, ...]
    totals: Totals
    requests: Sequence[Mapping[str, Any]] = field(default=())
    missing_parents: int = 0


def read_trace(engine: Engine, book: PriceBook, trace_id: str) -> Trace | None:
    """Read a trace; None when no span of it is stored."""
    rows = engine.rows(_SPANS, {"trace": check_trace_id(trace_id)})
    if not rows:
        return None
    requests = facts_of_trace(engine, book, trace_id.lower())
    return assemble(trace_id.lower(), [_span(row) for row in rows], requests)


def assemble(trace_id: str, spans: Sequence[Span], requests: Sequence[Mapping[str, Any]]) -> Trace:
    """Order spans as a tree, attach costs and add up the requests."""
    by_id = {span.id: span for span in spans}
    children: dict[str | None, list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda s: (s.start_ns, -s.end_ns, s.id)):
        children[span.parent if span.parent in by_id else None].append(span)
    missing = sum(1 for s in spans if s.parent is not None and s.parent not in by_id)
    ordered = _walk(children)
    # Spans whose parents form a circle hang from no root; they are shown as roots.
    seen = {span.id for span in ordered}
    ordered += [span for span in spans if span.id not in seen]
    return Trace(trace_id, tuple(_priced(ordered, requests)), _totals(requests), requests, missing)


def check_trace_id(text: str) -> str:
    """Refuse what is not 32 hex digits."""
    if len(text) != 32 or not set(text.lower()) <= set("0123456789abcdef"):
        raise BadInput(f"trace id {text!r} is not 32 hex digits")
    return text


def _walk(children: Mapping[str | None, Sequence[Span]]) -> list[Span]:
    """Depth first without recursion: traces of agents are deep."""
    out: list[Span] = []
    stack = [(span, 0) for span in reversed(children.get(None, ()))]
    while stack:
        span, depth = stack.pop()
        out.append(replace(span, depth=depth))
        stack += [(child, depth + 1) for child in reversed(children.get(span.id, ()))]
    return out


def _priced(spans: Sequence[Span], requests: Sequence[Mapping[str, Any]]) -> list[Span]:
    """Put each request's cost on the spans that spent it and on everything above them.

    A request's cost goes to the engine spans below its anchor, by their time in the model; where
    there is none, to the anchor.
    """
    parents = {span.id: span.parent for span in spans}
    anchors = {r["request_id"]: r["cost_usd"] for r in requests if r["cost_usd"] is not None}
    engines: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        if span.layer == "engine" and (anchor := _nearest(span.id, parents, anchors)):
            engines[anchor].append(span)
    spent: dict[str, float] = defaultdict(float)
    for anchor, cost in anchors.items():
        weights = {s.id: _model_ms(s) for s in engines.get(anchor, ())}
        total = sum(weights.values())
        shares = {i: cost * w / total for i, w in weights.items()} if total else {anchor: cost}
        for place, share in shares.items():
            for above in _upwards(place, parents):
                spent[above] += share
    return [replace(s, cost_usd=spent[s.id]) if s.id in spent else s for s in spans]


def _model_ms(span: Span) -> float:
    return (span.bands["prefill_ms"] or 0) + (span.bands["decode_ms"] or 0)


def _nearest(start: str, parents: Mapping[str, str | None], among: Mapping[str, Any]) -> str | None:
    return next((i for i in _upwards(start, parents) if i in among), None)


def _upwards(start: str, parents: Mapping[str, str | None]) -> list[str]:
    out: list[str] = []
    here: str | None = start
    seen: set[str] = set()
    while here is not None and here in parents and here not in seen:
        out.append(here)
        seen.add(here)
        here = parents[here]
    return out


def _totals(requests: Sequence[Mapping[str, Any]]) -> Totals:
    conflicts = [
        {"request_id": request["request_id"], **json.loads(text)}
        for request in requests
        for text in request["conflicts"]
    ]
    return Totals(
        prompt_tokens=_sum([r["prompt_tokens"] for r in requests]),
        completion_tokens=_sum([r["completion_tokens"] for r in requests]),
        cost_usd=_sum([r["cost_usd"] for r in requests]),
        requests=len(requests),
        conflicts=conflicts,
    )


def _sum(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _span(row: Mapping[str, Any]) -> Span:
    typed = {
        name: row[name]
        for name in VOCABULARY_COLUMNS
        if name not in _TOKENS and row[name] not in {None, ""}
    }
    events = zip(row["event_times"], row["event_names"], row["event_attributes"], strict=True)
    return Span(
        id=row["id"],
        parent=None if row["parent"] == _NO_PARENT else row["parent"],
        name=row["name"],
        layer=row["layer"],
        service=row["service"],
        instance=row["instance"],
        start=row["start"],
        end=row["end"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        status={1: "ok", 2: "error"}.get(row["status_code"], "unset"),
        status_message=row["status_message"],
        attributes={**typed, **dict(row["attributes"])},
        resource=dict(row["resource"]),
        events=[{"time": t, "name": n, "attributes": dict(a)} for t, n, a in events],
        tokens={name: row[name] for name in _TOKENS},
        bands={name: row[name] for name in _BANDS},
    )


_SPANS = f"""
SELECT lower(hex(span_id)) AS id, lower(hex(parent_span_id)) AS parent, name, layer, service,
  instance, start, end, toUnixTimestamp64Nano(start) AS start_ns,
  toUnixTimestamp64Nano(end) AS end_ns, status_code, status_message,
  {", ".join(VOCABULARY_COLUMNS)}, attributes, resource,
  `events.time` AS event_times, `events.name` AS event_names,
  `events.attributes` AS event_attributes
FROM spans FINAL
WHERE trace_id = unhex({{trace:String}})
ORDER BY start_ns, id LIMIT {MAX_SPANS}
"""
