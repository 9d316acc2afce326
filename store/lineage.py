"""Which logical request a span belongs to: parents, anchors, and what ancestors lend.

Works on whole columns. Spans are numbered 0..n-1; `-1` is "nobody".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from store.span_set import Flags, Ids, Rows, Texts, Words


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
    parent that is not stored ends the walk. In a cycle every span speaks for itself.
    """
    own = np.arange(len(parent))
    outer = np.where(is_request, nearest(parent, is_request), -1)
    top = _followed(np.where(outer >= 0, outer, own))
    anchor = np.where(outer[top] >= 0, own, top)
    return Lineage(parent, np.where(is_request, anchor, -1))


def lend(words: Words, parent: Rows, start: Rows) -> Texts:
    """Return the nearest text that an ancestor of each `start` has, '' where none has one."""
    lender = nearest(parent, words.codes != 0)[start]
    return words.known[np.where(lender >= 0, words.codes[lender], 0)]


def nearest(parent: Rows, wanted: Flags) -> Rows:
    """Find the nearest ancestor of every span that is one of `wanted`, -1 for none."""
    nobody = len(parent)
    up = np.where(wanted, np.arange(nobody), np.where(parent >= 0, parent, nobody))
    at = _followed(np.append(up, nobody))[parent]  # the last one stands for no parent
    return np.where(np.append(wanted, False)[at], at, -1)


def _followed(up: Rows) -> Rows:
    """Follow each pointer to where it ends; those of a cycle end anywhere in it.

    Each round doubles the distance, so that chains may be as deep as they like.
    """
    for _ in range(len(up).bit_length()):
        further = up[up]
        if np.array_equal(further, up):
            break
        up = further
    return up
