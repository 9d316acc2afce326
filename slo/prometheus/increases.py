"""Increases of counters between one sample and the next. Pure.

An increase belongs to the time of the later sample, so that a window's sum is what the counter says
at the last sample within, less what it said at the last one before: whole events, none lost between
two windows and none extrapolated. A counter that is lower than before started again from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slo.prometheus.series import Series, Times, Values

FORGET_MS = 3_600_000
"""An increase over a longer gap is not counted: when it happened, nobody can say."""

SKEW = 0.9
"""Servers' clocks differ: a counter that two of them scraped and that lost less than this share
leaves was read in the wrong order, and did not start again."""

Whole = npt.NDArray[np.int64]

_MOST = 2.0**62  # far beyond what a double counts by ones


@dataclass(frozen=True, slots=True)
class Last:
    """The newest sample of a counter before some time."""

    at: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Increases:
    """`counts` has a row for each quantity and a column for each time."""

    at: Times
    counts: Whole
    unknown: int  # first samples that may have counted events from before, and were not counted


def increases(series: Series, before: Last | None, born: Callable[[int], bool]) -> Increases:
    """Count what the counters rose by at each sample.

    `born` says of a first sample whether its counter is known to have started since the target was
    scraped before: then all it shows happened since. All quantities start again together.
    """
    at, values = series.at, whole(series.values)
    if series.merged:
        at, values = _in_order(at, values, before)
    if not at.size:
        return Increases(at, values, 0)
    is_first = before is None
    start = np.zeros((values.shape[0], 1), np.int64)
    if before is not None:
        start = np.array(before.values, np.int64)[:, np.newaxis]
    earlier = np.concatenate([start, values[:, :-1]], axis=1)
    rise = values - earlier
    restarted = (rise < 0).any(axis=0)
    counts = np.where(restarted, values, rise)
    gaps = np.diff(at, prepend=at[0] if before is None else before.at)
    unknown = gaps > FORGET_MS
    if is_first:
        unknown[0] = not born(int(at[0]))
    lost = int((unknown & (counts.sum(axis=0) > 0)).sum())
    counts[:, unknown] = 0
    return Increases(at, np.maximum(counts, 0), lost)


def last_of(series: Series, before: Last | None, until: int) -> Last | None:
    """Return the newest sample before `until`; that of an earlier read if there is none since."""
    index = int(np.searchsorted(series.at, until)) - 1
    if index < 0:
        return before
    values = whole(series.values[:, index])
    return Last(int(series.at[index]), tuple(int(value) for value in values))


def whole(values: Values) -> Whole:
    """Round down, so that the parts of a counter of halves add up to the whole of it."""
    return np.floor(np.clip(values, 0, _MOST)).astype(np.int64)


def _in_order(at: Times, values: Whole, before: Last | None) -> tuple[Times, Whole]:
    """Leave out samples that are slightly lower than one before them."""
    highest = list(before.values) if before is not None else [0] * values.shape[0]
    kept = []
    for column in range(at.size):
        found = values[:, column]
        lower = [
            value < top and value > SKEW * top for value, top in zip(found, highest, strict=True)
        ]
        if not any(lower):
            kept.append(column)
            highest = list(found)
    return at[kept], values[:, kept]
