"""Events from what PromQL answers, per resolution: fractions, made whole without losing any."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slo.prometheus.client import Asks
from slo.prometheus.document import WINDOW, WINDOW_SECONDS
from slo.prometheus.series import Times
from slo.prometheus.sli import Queries
from slo.prometheus.tally import BLOCK_MS, Group, Tally

MINUTE_MS = 60_000
_ROUNDING = 1e-9  # what sums of doubles differ by

_Points = dict[Group, dict[int, float]]


def add_answers(
    asks: Asks, events: Queries, group_by: Sequence[str], tally: Tally, start: int, end: int
) -> tuple[Times, int]:
    """Add the events of whole resolutions in [start, end).

    An answer at t is of (t - resolution, t] and counts just before t. Returns when anything was
    heard, and how many answers were not numbers.
    """
    step = round(events.resolution.total_seconds() * 1000)
    first = start + step
    total = _points(asks, _filled(events.total, step), group_by, first, end + 1, step)
    part = _points(asks, _filled(events.part, step), group_by, first, end + 1, step)
    heard: set[int] = set()
    unknown = 0
    for group in total.keys() | part.keys():
        if events.part_is == "ratio" and group not in total:
            continue
        pairs: list[tuple[int, float, float]] = []
        for at in sorted(total.get(group, {}).keys() | part.get(group, {}).keys()):
            whole, one = total.get(group, {}).get(at, 0.0), part.get(group, {}).get(at, 0.0)
            if events.part_is == "ratio":
                one = one * whole if whole else 0.0
            if not (0 <= whole < math.inf and 0 <= one < math.inf):
                unknown += 1
                continue
            if at in total.get(group, {}):
                heard |= set(range(at - 1, at - step, -MINUTE_MS))
            almost = whole * (1 + _ROUNDING) + _ROUNDING
            pairs.append((at - 1, whole, min(one, whole) if one <= almost else one))
        _add(tally, group, pairs)
    return np.array(sorted(heard), np.int64), unknown


def _filled(query: str, step: int) -> str:
    query = query.replace(WINDOW_SECONDS, str(step // 1000))
    return query.replace(WINDOW, f"{step // MINUTE_MS}m")


def _points(
    asks: Asks, query: str, group_by: Sequence[str], first: int, end: int, step: int
) -> _Points:
    found: _Points = defaultdict(lambda: defaultdict(float))
    if first >= end:
        return found
    for each in asks.steps(query, first, end, step):
        group = _group(each, group_by)
        for at, text in each.get("values") or ():
            found[group][round(float(at) * 1000)] += float(text)
    return found


def _group(each: Mapping[str, Any], group_by: Sequence[str]) -> Group:
    labels = each.get("metric") or {}
    return tuple(labels.get(name, "") for name in group_by)


def _add(tally: Tally, group: Group, pairs: Sequence[tuple[int, float, float]]) -> None:
    """Round the sums from the start of a block on, not each answer: the rest moves on."""
    if not pairs:
        return
    at = np.array([pair[0] for pair in pairs], np.int64)
    blocks = at // BLOCK_MS
    for block in np.unique(blocks):
        inside = blocks == block
        for add, column in ((tally.add_total, 1), (tally.add_part, 2)):
            values = np.array([pair[column] for pair in pairs])[inside]
            sums = np.floor(np.cumsum(values) + 0.5).astype(np.int64)
            add(group, at[inside], np.diff(sums, prepend=0))
