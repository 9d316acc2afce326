"""Runs of evaluations: half-open intervals, sorted, apart. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slo.backtest.cells import Ints

NOTHING: Ints = np.zeros((0, 2), np.int64)


def joined(starts: Ints, ends: Ints) -> Ints:
    """Join intervals that touch or overlap; they come sorted by start. Returns rows of two."""
    keep = ends > starts
    starts, ends = starts[keep], ends[keep]
    if not starts.size:
        return NOTHING
    reach = np.maximum.accumulate(ends)
    breaks = np.flatnonzero(starts[1:] > reach[:-1])
    first = np.concatenate(([0], breaks + 1))
    last = np.concatenate((breaks, [starts.size - 1]))
    return np.stack((starts[first], reach[last]), axis=1)


def union(*runs: Ints) -> Ints:
    together = np.concatenate(runs) if runs else NOTHING
    together = together[np.argsort(together[:, 0], kind="stable")]
    return joined(together[:, 0], together[:, 1])


def clipped(runs: Ints, first: int, end: int) -> Ints:
    """Keep what lies within [first, end)."""
    return joined(np.maximum(runs[:, 0], first), np.minimum(runs[:, 1], end))


def holds(runs: Ints, points: Ints) -> npt.NDArray[np.bool_]:
    """Say which points lie in a run."""
    if not runs.size:
        return np.zeros(points.size, bool)
    at = np.searchsorted(runs[:, 0], points, side="right") - 1
    return np.asarray((at >= 0) & (points < runs[np.maximum(at, 0), 1]))


def inside(runs: Ints, points: Ints) -> Ints:
    """Keep the points that lie in a run."""
    return np.asarray(points[holds(runs, points)], np.int64)


def points_of(runs: Ints) -> Ints:
    """List every evaluation of the runs."""
    lengths = runs[:, 1] - runs[:, 0]
    before = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
    offsets = np.repeat(runs[:, 0] - before, lengths)
    return np.asarray(np.arange(int(lengths.sum())) + offsets, np.int64)


def length(runs: Ints) -> int:
    return int((runs[:, 1] - runs[:, 0]).sum())


def at_of(flags: npt.NDArray[np.bool_]) -> Ints:
    """Turn one flag for each evaluation, from 0, into runs."""
    edges = np.diff(np.concatenate(([0], flags.astype(np.int8), [0])))
    return np.stack((np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)), axis=1)


def whole(first: int, end: int) -> Ints:
    return np.array([[first, end]], np.int64)
