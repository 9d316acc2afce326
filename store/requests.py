"""Spans -> request facts: one row per logical request. Pure, and independent of row order.

A fact is a function of the set of spans of its trace part (see `store.parts`), nothing else.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from store import lost_links
from store.lineage import lend, nearest, parents_of, trace_lineage
from store.members import Members, members_of, picked
from store.outcome import ERROR, Judged, outcomes_of
from store.quality import quality_of
from store.span_set import (
    CLIENT,
    ENGINE,
    GATEWAY,
    LAYERS,
    LLM,
    NO_LAYER,
    ROUTER,
    Flags,
    Reals,
    Rows,
    SpanSet,
    Texts,
)
from store.usage import usage_of

_CLIENT_KIND = 3  # OpenTelemetry's
_LENT = ("tenant", "user_id", "feature", "app_version", "priority", "conversation_id", "task_id")


def facts_of(spans: SpanSet) -> pd.DataFrame:
    """Work out the requests of some whole traces.

    Returns the columns of table `facts` but version and deleted; start and end as `start_ns` and
    `end_ns`.
    """
    is_request = spans.layer != NO_LAYER
    parent = parents_of(spans.id, spans.parent_id)
    parent = np.where((parent >= 0) & (spans.part[parent] == spans.part), parent, -1)
    anchor = _with_siblings(spans, parent, trace_lineage(parent, is_request).anchor)
    anchor = lost_links.joined(spans, parent, anchor)
    members = members_of(spans, anchor)
    if not len(members.anchors):
        return pd.DataFrame()
    facts = _identity(spans, members, parent) | _times(spans, members)
    facts |= usage_of(spans, members, nearest(parent, is_request))
    facts |= _ending(spans, members, facts["ttft_ms"])
    facts["tpot_ms"] = _tpot(spans, members, facts)
    facts["itl_p95_ms"] = members.first_number(spans.numbers["itl_p95_ms"])
    facts |= quality_of(spans, members, parent, anchor)
    facts["sources"] = _sources(spans, members)
    # Texts stay what they are: made into pandas' own kind, they would have to be made back again.
    return pd.DataFrame(
        {
            name: pd.Series(values, dtype=getattr(values, "dtype", object))
            for name, values in facts.items()
        }
    )


def _with_siblings(spans: SpanSet, parent: Rows, anchor: Rows) -> Rows:
    """Join an engine's sequences whose common parent is not stored: one request, one anchor.

    n > 1 gives sequences of one id, a batch of prompts ids that differ in the last part.
    """
    lost = (anchor == np.arange(len(anchor))) & (parent < 0)
    lost &= (spans.layer == ENGINE) & (spans.parent_id != 0)
    orphans = np.flatnonzero(lost)
    if not len(orphans):
        return anchor
    base = pd.Series(spans.words["llm_request_id"].at(orphans), dtype=object)
    base = base.str.replace(r"[-_]\d+$", "", regex=True)
    base = base.str.replace(r"-[0-9a-f]+-beam$", "", regex=True)
    same = [spans.part[orphans], spans.parent_id[orphans], base.to_numpy()]
    first = pd.Series(orphans).groupby(same).transform("min")
    joined = np.arange(len(anchor))
    joined[orphans] = first.to_numpy()
    return np.where(anchor >= 0, joined[anchor], -1)


def _identity(spans: SpanSet, members: Members, parent: Rows) -> dict[str, Any]:
    own, words = members.anchors, spans.words
    facts: dict[str, Any] = {
        "trace_id": spans.trace_id.at(own),
        "request_id": _hex(spans.span_id[own]),
        "start_ns": spans.start_ns[own],
    }
    for column in _LENT:
        said = members.first_text(words[column])
        silent = np.flatnonzero(said == "")
        said[silent] = lend(words[column], parent, own[silent])
        facts[column] = said
    facts["tenant"] = _or(facts["tenant"], "default")
    facts["route"] = _or(members.first_text(words["route"]), words["name"].at(own))
    facts["model"] = _or(
        members.first_text(words["model"]), members.first_text(words["response_model"])
    )
    facts["finish_reason"] = members.first_text(words["finish_reason"])
    facts["gateway"] = words["instance"].at(members.first(members.layer == GATEWAY))
    facts["replica"] = _replica(spans, members)
    facts["reported_cost_usd"] = members.first_number(spans.numbers["reported_cost_usd"])
    facts["streaming"] = members.first_number(spans.numbers["streaming"])
    counted = np.bincount(members.request[_tries(spans, members)], minlength=len(own))
    attempt = spans.numbers["attempt"][members.rows]
    told = members.extreme(np.fmax, attempt, np.ones(len(attempt), bool))
    facts["attempts"] = np.fmax(np.fmax(counted, told), 1).astype(np.int64)
    return facts


def _tries(spans: SpanSet, members: Members) -> Flags:
    """Say which members are a router's calls of a replica."""
    is_call: Flags = (members.layer == ROUTER) & (spans.kind[members.rows] == _CLIENT_KIND)
    return is_call


def _replica(spans: SpanSet, members: Members) -> Texts:
    """Name the engine that answered last, else where the router sent its last try."""
    words, by_start = spans.words, np.argsort(members.rows, kind="stable")
    engine = members.last(members.layer == ENGINE, by_start)
    found = _or(words["instance"].at(engine), words["service"].at(engine))
    tries = members.last(_tries(spans, members), by_start)
    address = words["server_address"].at(tries) + ":" + words["server_port"].at(tries)
    address = np.array([text.strip(":") for text in address], dtype=object)
    return _or(found, _or(words["replica"].at(tries), address))


def _times(spans: SpanSet, members: Members) -> dict[str, Any]:
    own, numbers = members.anchors, spans.numbers
    engine = members.layer == ENGINE
    # A span without an end, or with one before its start, says nothing about how long it took.
    length_ms = _above_zero((spans.end_ns[own] - spans.start_ns[own]) / 1e6)
    # vllm-router's own span often ends seconds late; what it measured is the head of a stream.
    head_ms = numbers["latency_ms"][own]
    late = (spans.layer[own] == ROUTER) & ~np.isnan(head_ms)
    by_end = np.lexsort((spans.id[members.rows], spans.end_ns[members.rows]))
    last_engine = members.last(engine, by_end)
    to_engine_end = (spans.end_ns[last_engine] - spans.start_ns[own]) / 1e6
    measured = np.where(last_engine >= 0, np.fmax(head_ms, to_engine_end), head_ms)
    duration = np.where(late, measured, length_ms)
    facts: dict[str, Any] = {
        "duration_ms": duration,
        "end_ns": spans.start_ns[own]
        + np.round(np.nan_to_num(duration, nan=0.0) * 1e6).astype(np.int64),
        "ttft_ms": _ttft(spans, members),
    }
    for column in ("queue_ms", "prefill_ms", "decode_ms"):
        known = engine & ~np.isnan(numbers[column][members.rows])
        facts[column] = picked(numbers[column], members.last(known, by_end))
    halves = numbers["prefill_ms"] + numbers["decode_ms"]
    worked = np.where(np.isnan(numbers["inference_ms"]), halves, numbers["inference_ms"])
    facts["engine_s"] = members.total(worked[members.rows], engine) / 1000
    return facts


def _ttft(spans: SpanSet, members: Members) -> Reals:
    """Return the first token as the outermost of those who measured it saw it."""
    measured = spans.numbers["ttft_ms"][members.rows]
    found = np.full(len(members.anchors), np.nan)
    for layer in (GATEWAY, CLIENT, LLM, ROUTER, ENGINE):
        seen = members.extreme(np.fmin, measured, members.layer == layer)
        found = np.where(np.isnan(found), seen, found)
    return found


def _tpot(spans: SpanSet, members: Members, facts: dict[str, Any]) -> Reals:
    """Return (e2e - TTFT) / (tokens - 1): what the caller saw if the gateway measured it."""
    numbers, rows = spans.numbers, members.rows
    seen = members.any((members.layer == GATEWAY) & ~np.isnan(numbers["ttft_ms"][rows]))
    tokens = facts["completion_tokens"]
    gaps = np.where(tokens >= 2, tokens - 1, np.nan)
    outside = _above_zero(facts["duration_ms"] - facts["ttft_ms"]) / gaps
    made = numbers["completion_tokens"][rows]
    engine = (members.layer == ENGINE) & (made >= 2)
    spent = members.total((numbers["e2e_ms"] - numbers["ttft_ms"])[rows], engine)
    return np.where(seen, outside, _above_zero(spent) / members.total(made - 1, engine))


def _ending(spans: SpanSet, members: Members, ttft_ms: Reals) -> dict[str, Any]:
    own = members.anchors
    # The answer that left: a gateway's or router's server span, the caller's, then a try's.
    status, tries = spans.numbers["http_status"], _tries(spans, members)
    answered = status[members.rows] > 0
    answer = members.first(answered & ~tries)
    answer = np.where(answer >= 0, answer, members.first(answered & tries))
    heads = (members.layer == ROUTER) & ~np.isnan(spans.numbers["latency_ms"][members.rows])
    engine = members.any(members.layer == ENGINE)
    judged = Judged(
        said_outcome=members.first_text(spans.words["outcome"]),
        said_reason=members.first_text(spans.words["outcome_reason"]),
        http_status=picked(status, answer),
        is_error=spans.status_code[own] == ERROR,
        may_leave=np.isin(spans.layer[own], (CLIENT, ROUTER)),
        is_answered=engine | ~np.isnan(ttft_ms) | members.any(heads),
    )
    outcome, reason = outcomes_of(judged)
    return {"outcome": outcome, "outcome_reason": reason, "http_status": judged.http_status}


def _sources(spans: SpanSet, members: Members) -> list[list[str]]:
    """List who took part in each request: "layer:service/instance", sorted."""
    service, instance = spans.words["service"], spans.words["instance"]
    many = len(service.known), len(instance.known)
    said = members.layer * many[0] + service.codes[members.rows]
    kinds, kind = np.unique(said * many[1] + instance.codes[members.rows], return_inverse=True)
    names = [
        f"{LAYERS[layer]}:{service.known[one]}/{instance.known[other]}".rstrip("/")
        for layer, one, other in zip(*np.unravel_index(kinds, (len(LAYERS), *many)), strict=True)
    ]
    known, number = np.unique(np.array(names, dtype=object), return_inverse=True)
    pairs = np.unique(members.request * len(known) + number[kind])
    texts = known[pairs % len(known)].tolist()
    cuts = [0, *(np.flatnonzero(np.diff(pairs // len(known))) + 1).tolist(), len(texts)]
    return [texts[begin:end] for begin, end in pairwise(cuts)]


def _above_zero(values: Reals) -> Reals:
    """Take what clocks cannot have measured as unknown."""
    kept: Reals = np.where(values > 0, values, np.nan)
    return kept


def _or(texts: Texts, other: Texts | str) -> Texts:
    """Fill the empty ones."""
    filled: Texts = np.where(texts == "", other, texts)
    return filled


def _hex(ids: npt.NDArray[np.void]) -> list[str]:
    text, width = ids.tobytes().hex(), 2 * ids.itemsize
    return [text[at : at + width] for at in range(0, len(text), width)]
