"""The spans of requests, grouped: sums, firsts and lasts per request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from store.span_set import NO_LAYER, Flags, Reals, Rows, SpanSet, Texts, Words


@dataclass(frozen=True, slots=True)
class Members:
    """Every request's spans, from outside in, then by start.

    `rows` are their numbers in the span set, `request` the places of their requests in `anchors`
    (ascending), `layer` their layers. What is asked "per request" comes in the order of `anchors`.
    """

    anchors: Rows
    rows: Rows
    request: Rows
    layer: Rows

    def first(self, among: Flags) -> Rows:
        """Return each request's first member among these, by its span's number; -1 for none."""
        at = np.flatnonzero(among)
        owner = self.request[at]
        is_first = np.append(True, owner[1:] != owner[:-1])[: len(at)]
        found = np.full(len(self.anchors), -1)
        found[owner[is_first]] = self.rows[at[is_first]]
        return found

    def last(self, among: Flags, order: Rows) -> Rows:
        """Return the one that comes last in `order` (a permutation of the members)."""
        at = order[among[order]]
        found = np.full(len(self.anchors), -1)
        found[self.request[at]] = self.rows[at]  # the last assignment stays
        return found

    def first_text(self, words: Words) -> Texts:
        """Return the outermost text that is not empty, '' where nobody says anything."""
        return words.at(self.first(words.codes[self.rows] > 0))

    def first_number(self, numbers: Reals, among: Flags | None = None) -> Reals:
        """Return the outermost number that is known, NaN for none."""
        known = ~np.isnan(numbers[self.rows])
        return picked(numbers, self.first(known if among is None else known & among))

    def total(self, values: Reals, among: Flags) -> Reals:
        """Sum `values`, one for each member; NaN where none is known."""
        at = np.flatnonzero(among & ~np.isnan(values))
        count = np.bincount(self.request[at], minlength=len(self.anchors))
        sums = np.bincount(self.request[at], values[at], minlength=len(self.anchors))
        return np.where(count > 0, sums, np.nan)

    def extreme(self, ufunc: np.ufunc, values: Reals, among: Flags) -> Reals:
        """Return np.fmin or np.fmax of `values`, one for each member; NaN where none is known."""
        found = np.full(len(self.anchors), np.nan)
        at = np.flatnonzero(among)
        ufunc.at(found, self.request[at], values[at])
        return found

    def any(self, among: Flags) -> Flags:
        """Say which requests have one of these members."""
        found = np.zeros(len(self.anchors), bool)
        found[self.request[among]] = True
        return found


def members_of(spans: SpanSet, anchor: Rows) -> Members:
    """Group the spans that belong to a request: `anchor` names its outermost span, -1 for none."""
    rows = np.flatnonzero((anchor >= 0) & (spans.layer != NO_LAYER))
    rows = rows[np.lexsort((spans.layer[rows], anchor[rows]))]
    anchors, request = np.unique(anchor[rows], return_inverse=True)
    return Members(anchors, rows, request, spans.layer[rows])


def picked(values: Reals, rows: Rows) -> Reals:
    """Return the values of these rows, NaN for nobody's."""
    return np.where(rows >= 0, values[rows], np.nan)
