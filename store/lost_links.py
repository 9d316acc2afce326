"""Requests that a lost span would tear in two.

Exporters drop spans. Where the span between a caller's and an engine's is missing, the inner one's
parent is not stored, and it would count as a request of its own. It is given to the one request of
its trace that can be its outside: an outer layer's, open all the while, without a span of the same
layer. Where none or several fit, nothing is guessed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

Indices = npt.NDArray[np.int64]

_DEPTH = {"client": 0, "llm": 0, "gateway": 1, "router": 2, "engine": 3}


def joined(spans: pd.DataFrame, parent: Indices, anchor: Indices) -> Indices:
    """Return the anchors with torn requests joined.

    `spans` has part, layer, parent_id, start_ns and end_ns; numbered 0..n-1 like `parent` and
    `anchor`.
    """
    is_anchor = anchor == np.arange(len(anchor))
    is_lost = is_anchor & (parent < 0) & (spans["parent_id"] != 0).to_numpy()
    heads = spans[is_anchor]
    counts = heads.groupby("part")["layer"].agg(["size", "nunique"])
    mixed = counts.index[(counts["size"] > 1) & (counts["nunique"] > 1)]
    lost = spans[is_lost & spans["part"].isin(mixed).to_numpy()]
    if lost.empty:
        return anchor
    heads = heads[heads["part"].isin(lost["part"])]
    layers = spans.loc[anchor >= 0, "layer"].groupby(anchor[anchor >= 0]).agg(set)
    inside: dict[int, list[int]] = {}
    for number, one in zip(lost.index, lost.itertuples(), strict=True):
        fits = heads[
            (heads["part"] == one.part)
            & (heads["layer"].map(_DEPTH) < _DEPTH[str(one.layer)])
            & (heads["start_ns"] <= one.start_ns)
            & (heads["end_ns"] >= one.end_ns)
        ].index
        outside = [int(head) for head in fits if one.layer not in layers[head]]
        if len(outside) == 1:
            inside.setdefault(outside[0], []).append(int(number))
    moved = np.arange(len(anchor))
    for head, numbers in inside.items():
        # Tries of one lost parent go together; strangers would be guesswork.
        if len(set(spans.loc[numbers, "parent_id"])) == 1:
            moved[numbers] = head
    return np.where(anchor >= 0, moved[moved[anchor]], -1)
