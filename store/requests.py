"""Spans -> request facts: one row per logical request. Pure, and independent of row order.

A fact is a function of the set of spans of its trace part (see `store.facts`), nothing else.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from store import lost_links
from store.lineage import lend, parents_of, trace_lineage
from store.outcome import ERROR, outcomes_of
from store.usage import usage_of

REQUEST_LAYERS = ("gateway", "router", "client", "llm", "engine")

# What a fact is made from; `store.facts` selects exactly these. Text is '' when unknown.
TEXTS = (
    "name", "layer", "service", "instance", "tenant", "route", "user_id", "feature", "app_version",
    "priority", "replica", "server_address", "server_port", "model", "response_model",
    "llm_request_id", "conversation_id", "task_id", "outcome", "outcome_reason", "finish_reason",
)  # fmt: skip
NUMBERS = (
    "http_status", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens",
    "total_tokens", "reported_cost_usd", "ttft_ms", "queue_ms", "prefill_ms", "decode_ms",
    "inference_ms", "e2e_ms", "latency_ms", "attempt", "streaming",
)  # fmt: skip

_SERVER, _CLIENT = 2, 3  # OpenTelemetry's span kinds
_OUTSIDE_IN = {"gateway": 0, "router": 1, "client": 2, "llm": 3, "engine": 4}
_LENT = ("tenant", "user_id", "feature", "app_version", "priority", "conversation_id", "task_id")


def facts_of(spans: pd.DataFrame) -> pd.DataFrame:
    """Work out the requests of some whole traces.

    `spans` has one row per span: part (the trace part's number), id and parent_id (uint64, 0 for
    none), trace_id (bytes), span_id (hex text), kind, status_code, start_ns, end_ns, `TEXTS` and
    `NUMBERS` (NaN for unknown). Returns the columns of table `facts` but version and deleted.
    """
    spans = spans.sort_values(["start_ns", "id"], kind="stable").reset_index(drop=True)
    spans["number"] = np.arange(len(spans))
    spans["start"] = spans["start_ns"]
    is_request = spans["layer"].isin(REQUEST_LAYERS).to_numpy()
    parent = parents_of(spans["id"].to_numpy("uint64"), spans["parent_id"].to_numpy("uint64"))
    part = spans["part"].to_numpy()
    parent = np.where((parent >= 0) & (part[parent] == part), parent, -1)
    lineage = trace_lineage(parent, is_request)
    anchor = _with_siblings(spans, parent, lineage.anchor)
    spans["anchor"] = lost_links.joined(spans, parent, anchor)
    spans["outer"] = _outer(parent, is_request)
    members = spans[is_request]
    if members.empty:
        return pd.DataFrame()
    anchors = pd.Index(np.sort(members["anchor"].unique()), name="anchor")
    rank = members["layer"].map(_OUTSIDE_IN)
    outside_in = members.assign(rank=rank).sort_values(["rank", "start_ns", "id"], kind="stable")
    facts = _identity(spans, outside_in, anchors, parent)
    facts = facts.join(_times(spans, members, anchors))
    facts = facts.join(usage_of(members, anchors))
    facts = facts.join(_ending(outside_in, members, facts, anchors))
    facts["tpot_ms"] = _tpot(facts, members)
    facts["sources"] = _sources(members, anchors)
    return facts.drop(columns=["total_tokens"]).reset_index(drop=True)


def _with_siblings(spans: pd.DataFrame, parent: np.ndarray, anchor: np.ndarray) -> np.ndarray:
    """Join an engine's sequences whose common parent is not stored: one request, one anchor.

    n > 1 gives sequences of one id, a batch of prompts ids that differ in the last part.
    """
    lost = (anchor == np.arange(len(anchor))) & (parent < 0)
    lost &= (spans["layer"] == "engine").to_numpy() & (spans["parent_id"] != 0).to_numpy()
    if not lost.any():
        return anchor
    orphans = spans[lost]
    base = orphans["llm_request_id"].str.replace(r"[-_]\d+$", "", regex=True)
    base = base.str.replace(r"-[0-9a-f]+-beam$", "", regex=True)
    first = orphans.groupby([orphans["part"], orphans["parent_id"], base])["number"].transform(
        "min"
    )
    joined = np.arange(len(anchor))
    joined[first.index.to_numpy()] = first.to_numpy()
    return np.where(anchor >= 0, joined[anchor], -1)


def _outer(parent: np.ndarray, is_request: np.ndarray) -> np.ndarray:
    """Return the number of the nearest request-like ancestor, -1 for none."""
    at = parent.copy()
    for _ in range(64):
        between = (at >= 0) & ~is_request[at]
        if not between.any():
            break
        at = np.where(between, parent[at], at)
    return at


def _identity(
    spans: pd.DataFrame, outside_in: pd.DataFrame, anchors: pd.Index, parent: np.ndarray
) -> pd.DataFrame:
    first = outside_in.groupby("anchor")
    own = spans.loc[anchors]
    facts = pd.DataFrame(index=anchors)
    facts["trace_id"] = own["trace_id"]
    facts["request_id"] = own["span_id"]
    facts["start_ns"] = own["start_ns"]
    said = {
        column: _first_text(outside_in, column).reindex(anchors, fill_value="")
        for column in {*_LENT, "route", "model", "response_model", "finish_reason"}
    }
    for column in _LENT:
        values = said[column]
        missing = anchors[(values == "").to_numpy()]
        if len(missing):
            values = values.copy()
            values[missing] = lend(
                spans[column].to_numpy(object), parent, missing.to_numpy("int64")
            )
        facts[column] = values
    facts["tenant"] = facts["tenant"].where(facts["tenant"] != "", "default")
    facts["route"] = said["route"].where(said["route"] != "", own["name"])
    facts["model"] = said["model"].where(said["model"] != "", said["response_model"])
    facts["finish_reason"] = said["finish_reason"]
    gateways = outside_in[outside_in["layer"] == "gateway"]
    facts["gateway"] = (
        gateways.groupby("anchor")["instance"].first().reindex(anchors, fill_value="")
    )
    facts["replica"] = _replica(outside_in, anchors)
    facts["reported_cost_usd"] = first["reported_cost_usd"].first().reindex(anchors)
    facts["streaming"] = first["streaming"].first().reindex(anchors)
    tries = outside_in[(outside_in["layer"] == "router") & (outside_in["kind"] == _CLIENT)]
    counted = tries.groupby("anchor").size().reindex(anchors, fill_value=0)
    told = first["attempt"].max().reindex(anchors).fillna(1)
    facts["attempts"] = np.maximum(np.maximum(counted, told), 1).astype("int64")
    return facts


def _first_text(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows[rows[column] != ""].groupby("anchor")[column].first()


def _replica(outside_in: pd.DataFrame, anchors: pd.Index) -> pd.Series:
    """Name the engine that answered last, else where the router sent its last try."""
    latest = outside_in.sort_values(["start_ns", "id"], kind="stable")
    engine = latest[latest["layer"] == "engine"]
    engine_name = engine["instance"].where(engine["instance"] != "", engine["service"])
    tries = latest[(latest["layer"] == "router") & (latest["kind"] == _CLIENT)]
    address = tries["server_address"].str.cat(tries["server_port"], sep=":").str.strip(":")
    tried = tries["replica"].where(tries["replica"] != "", address)
    found = engine_name.groupby(engine["anchor"]).last().reindex(anchors, fill_value="")
    routed = tried.groupby(tries["anchor"]).last().reindex(anchors, fill_value="")
    return found.where(found != "", routed)


def _times(spans: pd.DataFrame, members: pd.DataFrame, anchors: pd.Index) -> pd.DataFrame:
    own = spans.loc[anchors]
    engine = members[members["layer"] == "engine"]
    by_request = engine.groupby("anchor")
    last = engine.sort_values(["end_ns", "id"], kind="stable").groupby("anchor").last()
    times = pd.DataFrame(index=anchors)
    length_ms = (own["end_ns"] - own["start_ns"]) / 1e6
    # vllm-router's own span often ends seconds late; what it measured is the head of a stream.
    late = (own["layer"] == "router") & own["latency_ms"].notna()
    engine_end = by_request["end_ns"].max().reindex(anchors)
    to_engine_end = (engine_end - own["start_ns"]) / 1e6
    measured = np.fmax(own["latency_ms"], to_engine_end)
    times["duration_ms"] = length_ms.where(~late, measured)
    times["end_ns"] = own["start_ns"] + (times["duration_ms"] * 1e6).round().astype("int64")
    ttft = _ttft(members, "gateway", anchors)
    for layer in ("client", "llm", "router", "engine"):
        ttft = ttft.fillna(_ttft(members, layer, anchors))
    times["ttft_ms"] = ttft
    for column in ("queue_ms", "prefill_ms", "decode_ms"):
        times[column] = last[column].reindex(anchors)
    worked = engine["inference_ms"].fillna(engine["prefill_ms"] + engine["decode_ms"])
    times["engine_s"] = worked.groupby(engine["anchor"]).sum(min_count=1).reindex(anchors) / 1000
    return times


def _ttft(members: pd.DataFrame, layer: str, anchors: pd.Index) -> pd.Series:
    rows = members[members["layer"] == layer]
    return rows.groupby("anchor")["ttft_ms"].min().reindex(anchors)


def _tpot(facts: pd.DataFrame, members: pd.DataFrame) -> pd.Series:
    """Return (e2e - TTFT) / (tokens - 1): what the caller saw if the gateway measured it."""
    anchors = facts.index
    gateway = members[(members["layer"] == "gateway") & members["ttft_ms"].notna()]
    seen = pd.Series(anchors.isin(gateway["anchor"]), index=anchors)
    tokens = facts["completion_tokens"].where(facts["completion_tokens"] >= 2)
    outside = (facts["duration_ms"] - facts["ttft_ms"]) / (tokens - 1)
    engine = members[(members["layer"] == "engine") & (members["completion_tokens"] >= 2)]
    spent = (engine["e2e_ms"] - engine["ttft_ms"]).groupby(engine["anchor"]).sum(min_count=1)
    gaps = (engine["completion_tokens"] - 1).groupby(engine["anchor"]).sum()
    inside = (spent / gaps).reindex(anchors)
    return outside.where(seen, inside)


def _ending(
    outside_in: pd.DataFrame, members: pd.DataFrame, facts: pd.DataFrame, anchors: pd.Index
) -> pd.DataFrame:
    own = members.loc[anchors]
    # The answer that left: a gateway's or router's server span, the caller's, then a try's.
    is_try = (outside_in["layer"] == "router") & (outside_in["kind"] == _CLIENT)
    answers = outside_in[(outside_in["http_status"] > 0)].assign(is_try=is_try)
    answers = answers.sort_values(["is_try", "rank", "start_ns", "id"], kind="stable")
    status = answers.groupby("anchor")["http_status"].first().reindex(anchors)
    engine = anchors.isin(members.loc[members["layer"] == "engine", "anchor"])
    heads = members[(members["layer"] == "router") & members["latency_ms"].notna()]
    judged = pd.DataFrame(
        {
            "said_outcome": _first_text(outside_in, "outcome").reindex(anchors, fill_value=""),
            "said_reason": _first_text(outside_in, "outcome_reason").reindex(
                anchors, fill_value=""
            ),
            "http_status": status,
            "is_error": own["status_code"] == ERROR,
            "anchor_layer": own["layer"],
            "has_engine": engine,
            "has_answer": facts["ttft_ms"].notna() | anchors.isin(heads["anchor"]),
        },
        index=anchors,
    )
    return outcomes_of(judged).assign(http_status=status)


def _sources(members: pd.DataFrame, anchors: pd.Index) -> pd.Series:
    name = members["layer"].str.cat(members["service"], sep=":")
    name = name.str.cat(members["instance"], sep="/").str.rstrip("/")
    pairs = pd.DataFrame({"anchor": members["anchor"], "name": name}).drop_duplicates()
    pairs = pairs.sort_values(["anchor", "name"], kind="stable")
    ends = np.flatnonzero(np.diff(pairs["anchor"], append=-1)) + 1
    lists = [list(part) for part in np.split(pairs["name"].to_numpy(object), ends[:-1])]
    return pd.Series(lists, index=pairs["anchor"].to_numpy()[ends - 1]).reindex(anchors)
