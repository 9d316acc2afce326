"""Tokens of a request, from one layer, and what the other layers say differently.

The same tokens are reported by SDK, gateway and engine. The layer nearest to the work is taken:
engine, then the innermost LLM call, then gateway, router, client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from store.members import Members
from store.span_set import CLIENT, ENGINE, GATEWAY, LAYERS, LLM, ROUTER, Flags, Reals, Rows, SpanSet

NEAREST_FIRST = (ENGINE, LLM, GATEWAY, ROUTER, CLIENT)
_FIELDS = ("prompt_tokens", "completion_tokens")
_SUMS = (*_FIELDS, "total_tokens")
_REST = ("cached_tokens", "reasoning_tokens")

Sums = Mapping[str, Reals]  # one value per request for each of `_SUMS`; NaN: unknown


def usage_of(spans: SpanSet, members: Members, outer: Rows) -> dict[str, Any]:
    """Sum up per request.

    `outer` is every span's nearest request-like ancestor, -1 for none. Returns prompt_tokens,
    completion_tokens, cached_tokens, reasoning_tokens (NaN: unknown), usage_source and conflicts
    (a list of JSON texts).
    """
    said = {column: spans.numbers[column][members.rows] for column in (*_SUMS, *_REST)}
    carrying = ~np.isnan(said["prompt_tokens"]) | ~np.isnan(said["completion_tokens"])
    llm = carrying & (members.layer == LLM)
    outside = llm & np.isin(members.rows, outer[members.rows[llm]])
    layers: dict[int, Sums] = {
        ENGINE: _engine(spans, members, carrying & (members.layer == ENGINE)),
        LLM: {column: members.total(said[column], llm & ~outside) for column in _SUMS},
    }
    for layer in (GATEWAY, ROUTER, CLIENT):
        layers[layer] = _first(spans, members, carrying & (members.layer == layer))
    taken = {column: np.full(len(members.anchors), np.nan) for column in _SUMS}
    source = np.full(len(members.anchors), -1)
    for layer in NEAREST_FIRST:
        is_known = ~np.isnan(layers[layer]["prompt_tokens"])
        is_known |= ~np.isnan(layers[layer]["completion_tokens"])
        takes = (source < 0) & is_known
        source[takes] = layer
        for column in _SUMS:
            taken[column][takes] = layers[layer][column][takes]
    facts: dict[str, Any] = {column: taken[column] for column in _FIELDS}
    for column in _REST:
        facts[column] = _nearest(members, said[column])
    facts["usage_source"] = np.array([*LAYERS, ""], dtype=object)[source]
    others = [(LAYERS[layer], layer, sums) for layer, sums in layers.items()]
    others.append(("llm (outer)", -2, _first(spans, members, outside)))
    facts["conflicts"] = _conflicts(taken, source, others)
    return facts


def _first(spans: SpanSet, members: Members, among: Flags) -> Sums:
    return {column: members.first_number(spans.numbers[column], among) for column in _SUMS}


def _engine(spans: SpanSet, members: Members, among: Flags) -> Sums:
    """Sum an engine's sequences: a prompt counts once per request id, completions all."""
    request_id = spans.words["llm_request_id"]
    beam_ids = np.array(["-beam-" in text for text in request_id.known])
    beams = among & beam_ids[request_id.codes[members.rows]]
    plain = among & ~beams
    prompt, completion = (spans.numbers[column][members.rows] for column in _FIELDS)
    # The longest prompt of each id: sorted by it, the last of its id.
    at = np.flatnonzero(plain & ~np.isnan(prompt))
    same = members.request[at] * len(request_id.known) + request_id.codes[members.rows[at]]
    at = at[np.lexsort((prompt[at], same))]
    same = np.sort(same)
    one_of_each = np.zeros(len(plain), bool)
    one_of_each[at[np.append(same[1:] != same[:-1], True)[: len(at)]]] = True
    sums = {
        "prompt_tokens": members.total(prompt, one_of_each),
        "completion_tokens": members.total(completion, plain),
        "total_tokens": np.full(len(members.anchors), np.nan),
    }
    only_beams = members.any(beams) & ~members.any(plain)
    if only_beams.any():
        found = _beam_search(spans, members, beams)
        for column in _FIELDS:
            sums[column] = np.where(only_beams, found[column], sums[column])
    return sums


def _beam_search(spans: SpanSet, members: Members, beams: Flags) -> Sums:
    """Count what a beam search leaves, a span per step and beam.

    Its prompt is the shortest, its completion is steps times beams.
    """
    ids = spans.words["llm_request_id"].at(members.rows[beams])
    steps = pd.Series([text.rsplit("-", 2)[0] for text in ids])
    widths = steps.groupby([members.request[beams], steps]).size()
    counted = widths.groupby(level=0).agg(["size", "max"])
    completion = np.full(len(members.anchors), np.nan)
    completion[counted.index] = counted["size"] * counted["max"]
    prompt = spans.numbers["prompt_tokens"][members.rows]
    shortest = members.extreme(np.fmin, prompt, beams)
    return {"prompt_tokens": shortest, "completion_tokens": completion}


def _nearest(members: Members, said: Reals) -> Reals:
    """Take what the layer nearest to the work says; its parts (n > 1, batches) add up."""
    found = np.full(len(members.anchors), np.nan)
    for layer in NEAREST_FIRST:
        sums = members.total(said, members.layer == layer)
        found = np.where(np.isnan(found), sums, found)
    return found


def _conflicts(
    taken: Sums, source: Rows, others: Sequence[tuple[str, int, Sums]]
) -> list[list[str]]:
    """Note who says something else than what was taken; `others` are (name, layer, sums)."""
    found: list[list[str]] = [[] for _ in source]
    for name, layer, sums in others:
        for field in _FIELDS:
            says, than = sums[field], taken[field]
            for at in _differing(says, np.where(source == layer, np.nan, than)):
                found[at].append(_note(field, name, says[at], LAYERS[source[at]], than[at]))
    parts, total = taken["prompt_tokens"] + taken["completion_tokens"], taken["total_tokens"]
    for at in _differing(total, parts):
        said_by = LAYERS[source[at]]
        note = _note("total_tokens", said_by, total[at], "prompt + completion", parts[at])
        found[at].append(note)
    return found


def _differing(one: Reals, other: Reals) -> list[int]:
    """Name the requests of which both are known and not the same."""
    both = ~np.isnan(one) & ~np.isnan(other)
    return np.flatnonzero(both & (one != other)).tolist()


def _note(field: str, layer: str, says: float, taken_from: str, taken: float) -> str:
    note = {
        "field": field,
        "layer": layer,
        "says": int(says),
        "taken_from": taken_from,
        "taken": int(taken),
    }
    return json.dumps(note, separators=(",", ":"))
