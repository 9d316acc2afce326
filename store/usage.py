"""Tokens of a request, from one layer, and what the other layers say differently.

The same tokens are reported by SDK, gateway and engine. The layer nearest to the work is taken:
engine, then the innermost LLM call, then gateway, router, client.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

LAYERS = ("engine", "llm", "gateway", "router", "client")
_FIELDS = ("prompt_tokens", "completion_tokens")
_REST = ("cached_tokens", "reasoning_tokens")


def usage_of(spans: pd.DataFrame, anchors: pd.Index) -> pd.DataFrame:
    """Sum up per request.

    `spans` holds request-like spans with `anchor`, `layer`, `id`, `outer` (nearest request-like
    ancestor's number, -1 for none), `number`, `llm_request_id` and the token columns. Returns a
    frame indexed like `anchors` with prompt_tokens, completion_tokens, cached_tokens,
    reasoning_tokens (NaN: unknown), usage_source and conflicts (a list of JSON texts).
    """
    carrying = spans[spans["prompt_tokens"].notna() | spans["completion_tokens"].notna()]
    layers = {
        "engine": _engine(carrying[carrying["layer"] == "engine"]),
        "llm": _innermost(carrying[carrying["layer"] == "llm"]),
    }
    for layer in ("gateway", "router", "client"):
        rows = carrying[carrying["layer"] == layer]
        layers[layer] = rows.groupby("anchor")[[*_FIELDS, "total_tokens"]].first()
    out = pd.DataFrame(index=anchors, columns=[*_FIELDS, "total_tokens"], dtype="float64")
    source = pd.Series("", index=anchors, dtype=object)
    for layer in LAYERS:
        sums = layers[layer].reindex(anchors)
        takes = (source == "") & sums[list(_FIELDS)].notna().any(axis=1)
        out[takes] = sums[takes]
        source[takes] = layer
    for column in _REST:
        out[column] = _nearest_value(spans, column).reindex(anchors)
    out["usage_source"] = source
    out["conflicts"] = _conflicts(out, source, layers, _outer_sums(carrying))
    return out


def _engine(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum an engine's sequences: a prompt counts once per request id, completions all.

    Beam search leaves a span per step and beam: its prompt is the shortest, its completion is
    steps times beams.
    """
    is_beam = rows["llm_request_id"].str.contains("-beam-", regex=False)
    plain, beams = rows[~is_beam], rows[is_beam]
    prompts = plain.groupby(["anchor", "llm_request_id"])["prompt_tokens"].max()
    sums = pd.DataFrame(
        {
            "prompt_tokens": prompts.groupby("anchor").sum(min_count=1),
            "completion_tokens": plain.groupby("anchor")["completion_tokens"].sum(min_count=1),
        }
    )
    if len(beams):
        step = beams["llm_request_id"].str.rsplit("-", n=2).str[0]
        width = beams.groupby(["anchor", step]).size()
        by_request = width.groupby("anchor")
        found = pd.DataFrame(
            {
                "prompt_tokens": beams.groupby("anchor")["prompt_tokens"].min(),
                "completion_tokens": (by_request.size() * by_request.max()).astype("float64"),
            }
        )
        sums = pd.concat([sums, found[~found.index.isin(sums.index)]])
    sums["total_tokens"] = np.nan
    return sums


def _innermost(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum the LLM calls that have no LLM call with usage inside."""
    inner = rows[~rows["number"].isin(rows["outer"])]
    return inner.groupby("anchor")[[*_FIELDS, "total_tokens"]].sum(min_count=1)


def _outer_sums(rows: pd.DataFrame) -> pd.DataFrame:
    """Sum LLM calls around other LLM calls, to compare with what is inside."""
    llm = rows[rows["layer"] == "llm"]
    outer = llm[llm["number"].isin(llm["outer"])]
    return outer.groupby("anchor")[list(_FIELDS)].first()


def _nearest_value(spans: pd.DataFrame, column: str) -> pd.Series:
    rows = spans[spans[column].notna()]
    rank = rows["layer"].map({layer: i for i, layer in enumerate(LAYERS)})
    ordered = rows.assign(rank=rank).sort_values(["rank", "start", "id"], kind="stable")
    # Parts of one layer (n > 1, batches) add up.
    best = ordered.groupby("anchor")["rank"].transform("min")
    return ordered[ordered["rank"] == best].groupby("anchor")[column].sum(min_count=1)


def _conflicts(
    taken: pd.DataFrame,
    source: pd.Series,
    layers: dict[str, pd.DataFrame],
    outer: pd.DataFrame,
) -> list[list[str]]:
    found: dict[object, list[str]] = {}
    for layer, sums in [*layers.items(), ("llm (outer)", outer)]:
        other = sums.reindex(taken.index)
        for field in _FIELDS:
            differs = other[field].notna() & taken[field].notna() & (other[field] != taken[field])
            for anchor in taken.index[differs & (source != layer)]:
                found.setdefault(anchor, []).append(
                    _note(
                        field,
                        layer,
                        other.loc[anchor, field],
                        str(source[anchor]),
                        taken.loc[anchor, field],
                    )
                )
    parts = taken[list(_FIELDS)].sum(axis=1, min_count=2)
    beyond = taken["total_tokens"].notna() & parts.notna() & (taken["total_tokens"] != parts)
    for anchor in taken.index[beyond]:
        found.setdefault(anchor, []).append(
            _note(
                "total_tokens",
                str(source[anchor]),
                taken.loc[anchor, "total_tokens"],
                "prompt + completion",
                parts[anchor],
            )
        )
    return [found.get(anchor, []) for anchor in taken.index]


def _note(field: str, layer: str, says: object, taken_from: str, taken: object) -> str:
    note = {
        "field": field,
        "layer": layer,
        "says": int(float(str(says))),
        "taken_from": taken_from,
        "taken": int(float(str(taken))),
    }
    return json.dumps(note, separators=(",", ":"))
