"""Which logical request a span belongs to: parents, anchors, and what ancestors lend.

Works on whole columns. Spans are numbered 0..n-1; `-1` is "nobody".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from store.span_set import Flags, Ids, Rows, Texts, Words

_DEPTH = 64  # a chain deeper than this, or one that bites its tail, is cut


@dataclass(frozen=True, slots=True)
class Lineage:
    """`parent` is the stored parent; `anchor` the outermost request-like span of the chain.

    `anchor` is -1 for spans that are not request-like.
    """

    parent: Rows
    anchor: Rows


def parents_of(ids: Ids, parent_ids: Ids) -> Rows:
    """Find each span's parent among `ids` (unique); 0 as parent id means none."""
    if not len(ids):
        return np.empty(0, np.int64)
    order = np.argsort(ids, kind="stable")
    place = np.searchsorted(ids[order], parent_ids)
    place[place == len(ids)] = 0
    found = order[place]
    is_there = (ids[found] == parent_ids) & (parent_ids != 0)
    return np.where(is_there, found, -1)


def trace_lineage(parent: Rows, is_request: Flags) -> Lineage:
    """Walk up from every request-like span to the outermost one of its chain.

    Spans in between that are not request-like (agents, tools, middleware) are stepped over; a
    parent that is not stored ends the walk.
    """
    outer = np.where(is_request, nearest(parent, is_request), -1)
    anchor = np.where(is_request, np.arange(len(parent)), -1)
    for _ in range(_DEPTH):
        above = np.where(anchor >= 0, outer[anchor], -1)
        climbs = above >= 0
        if not climbs.any():
            break
        anchor = np.where(climbs, above, anchor)
    else:  # a cycle: every span of it speaks for itself
        above = np.where(anchor >= 0, outer[anchor], -1)
        anchor = np.where(above >= 0, np.arange(len(parent)), anchor)
        anchor = np.where(is_request, anchor, -1)
    return Lineage(parent, anchor)


def lend(words: Words, parent: Rows, start: Rows) -> Texts:
    """Return the nearest text that an ancestor of each `start` has, '' where none has one."""
    found = np.zeros(len(start), np.int64)
    at = parent[start]
    for _ in range(_DEPTH):
        open_ones = (at >= 0) & (found == 0)
        if not open_ones.any():
            break
        found[open_ones] = words.codes[at[open_ones]]
        at = np.where(at >= 0, parent[at], -1)
    return words.known[found]


def nearest(parent: Rows, is_request: Flags) -> Rows:
    """Find the nearest request-like ancestor of every span, -1 for none."""
    at = parent.copy()
    for _ in range(_DEPTH):
        between = (at >= 0) & ~is_request[at]
        if not between.any():
            return at
        at = np.where(between, parent[at], at)
    return np.where((at >= 0) & is_request[at], at, -1)
