"""Requests that a lost span would tear in two.

Exporters drop spans. Where the span between a caller's and an engine's is missing, the inner one's
parent is not stored, and it would count as a request of its own. It is given to the one request of
its trace that can be its outside: an outer layer's, open all the while, without a span of the same
layer. Where none or several fit, nothing is guessed.
"""

from __future__ import annotations

import numpy as np

from store.span_set import CLIENT, ENGINE, GATEWAY, LLM, NO_LAYER, ROUTER, Rows, SpanSet

# How far from the caller a layer is.
_DEPTH = np.zeros(NO_LAYER + 1, np.int64)
_DEPTH[[CLIENT, LLM, GATEWAY, ROUTER, ENGINE]] = 0, 0, 1, 2, 3


def joined(spans: SpanSet, parent: Rows, anchor: Rows) -> Rows:
    """Return the anchors with torn requests joined; `parent` and `anchor` name spans."""
    is_anchor = anchor == np.arange(len(anchor))
    heads, part, layer = np.flatnonzero(is_anchor), spans.part, spans.layer
    torn = is_anchor & (parent < 0) & (spans.parent_id != 0)
    torn &= np.isin(part, _mixed(part[heads], layer[heads]))
    lost = np.flatnonzero(torn)
    if not len(lost):
        return anchor
    of_part = _by_part(part, heads[np.isin(part[heads], part[lost])])
    inside = anchor >= 0
    taken = set(zip(anchor[inside].tolist(), layer[inside].tolist(), strict=True))
    lost_in: dict[int, list[int]] = {}
    for number in lost.tolist():
        near = of_part[part[number]]
        fits = near[
            (_DEPTH[layer[near]] < _DEPTH[layer[number]])
            & (spans.start_ns[near] <= spans.start_ns[number])
            & (spans.end_ns[near] >= spans.end_ns[number])
        ]
        outside = [head for head in fits.tolist() if (head, layer[number]) not in taken]
        if len(outside) == 1:
            lost_in.setdefault(outside[0], []).append(number)
    moved = np.arange(len(anchor))
    for head, numbers in lost_in.items():
        # Tries of one lost parent go together; strangers would be guesswork.
        if len(set(spans.parent_id[numbers])) == 1:
            moved[numbers] = head
    return np.where(anchor >= 0, moved[moved[anchor]], -1)


def _mixed(part: Rows, layer: Rows) -> Rows:
    """Name the parts that have requests of several layers."""
    pairs = np.unique(part * (NO_LAYER + 1) + layer) // (NO_LAYER + 1)
    again: Rows = pairs[1:][pairs[1:] == pairs[:-1]]
    return again


def _by_part(part: Rows, heads: Rows) -> dict[int, Rows]:
    ordered = heads[np.argsort(part[heads], kind="stable")]
    cuts = np.flatnonzero(np.diff(part[ordered])) + 1
    return {int(part[group[0]]): group for group in np.split(ordered, cuts)}
