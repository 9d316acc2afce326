"""How good an answer was, as others say it: evaluations, and the tools that it called. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from typing import Any

import numpy as np

from store.evaluation import Evaluation, worst
from store.lineage import nearest
from store.members import Members
from store.outcome import ERROR
from store.span_set import NO_LAYER, Flags, Rows, SpanSet

_TOOL = "tool"
_HIGHEST = 64  # levels above a tool that are looked at


def quality_of(spans: SpanSet, members: Members, parent: Rows, anchor: Rows) -> dict[str, Any]:
    """Work out evaluation and tools of every request; what nobody says is unknown."""
    size = len(members.anchors)
    facts: dict[str, Any] = {
        "eval_name": np.full(size, "", dtype=object),
        "eval_score": np.full(size, np.nan),
        "eval_label": np.full(size, "", dtype=object),
        "tool_calls": np.full(size, np.nan),
        "tool_errors": np.full(size, np.nan),
    }
    is_tool = _is_tool(spans)
    if not spans.evaluations and not is_tool.any():
        return facts
    around = _around(spans, parent, anchor)
    if spans.evaluations:
        _evaluate(facts, spans, members, around)
    if is_tool.any():
        facts |= _tools(spans, members, parent, around, is_tool)
    return facts


def _around(spans: SpanSet, parent: Rows, anchor: Rows) -> Rows:
    """Name the request that each span stands in, by its anchor; -1 for none."""
    is_request = spans.layer != NO_LAYER
    nearby = np.where(is_request, np.arange(len(spans)), nearest(parent, is_request))
    return np.where(nearby >= 0, anchor[nearby], -1)


def _evaluate(facts: dict[str, Any], spans: SpanSet, members: Members, around: Rows) -> None:
    place_of = {anchor: place for place, anchor in enumerate(members.anchors.tolist())}
    elsewhere = _Elsewhere(spans, members)
    said: dict[int, list[Evaluation]] = defaultdict(list)
    for row, found in spans.evaluations.items():
        place = place_of.get(int(around[row]))
        place = elsewhere.of(row) if place is None else place
        if place is not None:
            said[place] += found
    for place, found in said.items():
        taken = worst(found)
        facts["eval_name"][place], facts["eval_label"][place] = taken.name, taken.label
        facts["eval_score"][place] = math.nan if taken.score is None else taken.score


class _Elsewhere:
    """Finds the request of an evaluation that stands in none: the only one, or by its id."""

    def __init__(self, spans: SpanSet, members: Members) -> None:
        self._part = spans.part
        self._said = spans.words["llm_request_id"].codes
        self._of_part: dict[int, list[int]] = defaultdict(list)
        self._of_id: dict[tuple[int, int], int] = {}
        for place, part in enumerate(spans.part[members.anchors].tolist()):
            self._of_part[part].append(place)
        for row, place in zip(members.rows.tolist(), members.request.tolist(), strict=True):
            if self._said[row]:
                self._of_id.setdefault((int(spans.part[row]), int(self._said[row])), place)

    def of(self, row: int) -> int | None:
        part = int(self._part[row])
        few = self._of_part[part]
        if len(few) == 1:
            return few[0]
        return self._of_id.get((part, int(self._said[row])))


def _tools(
    spans: SpanSet, members: Members, parent: Rows, around: Rows, is_tool: Flags
) -> dict[str, Any]:
    """Count calls and failed ones; a request of which no tool is known has neither."""
    size = len(members.anchors)
    called = np.flatnonzero(is_tool & (nearest(parent, is_tool) < 0))  # not what a tool calls
    owner = around[called]
    alone = np.flatnonzero(owner < 0)
    owner[alone] = _askers(members, parent, called[alone])
    known = owner >= 0
    place = np.searchsorted(members.anchors, owner[known])
    failed = spans.status_code[called[known]] == ERROR
    calls = np.bincount(place, minlength=size)
    errors = np.bincount(place, failed, minlength=size)
    return {
        "tool_calls": np.where(calls > 0, calls, np.nan),
        "tool_errors": np.where(calls > 0, errors, np.nan),
    }


def _is_tool(spans: SpanSet) -> Flags:
    layer = spans.words["layer"]
    flags: Flags = (layer.known == _TOOL)[layer.codes]
    return flags


def _askers(members: Members, parent: Rows, tools: Rows) -> Rows:
    """Find who asked for tools that stand in no request: of an agent's calls the last one before.

    That is the newest request beneath the nearest ancestor that has one. Rows are in the order of
    start, so an earlier row began before.
    """
    beneath: dict[int, list[int]] = defaultdict(list)
    for anchor in members.anchors.tolist():
        at = int(parent[anchor])
        if at >= 0:
            beneath[at].append(anchor)
    owner = np.full(len(tools), -1)
    for number, tool in enumerate(tools.tolist()):
        at = int(parent[tool])
        for _ in range(_HIGHEST):
            if at < 0:
                break
            before = bisect_right(beneath[at], tool) if at in beneath else 0
            if before:
                owner[number] = beneath[at][before - 1]
                break
            at = int(parent[at])
    return owner
