"""The greatest of any stretch of a row of numbers, for many stretches at once. Pure.

A sparse table: the greatest of every 1, 2, 4, 8... neighbours, of which two cover any stretch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.integer[Any]]


class Greatest:
    """Answers for [start, end) of the numbers; what it makes for that it keeps until `forget`."""

    def __init__(self, values: Ints) -> None:
        self._levels = [np.asarray(values, np.int64)]

    def between(self, starts: Places, ends: Places) -> Ints:
        """Find the greatest of each stretch; 0 for an empty one."""
        lengths = ends - starts
        level = np.frexp(np.maximum(lengths, 1))[1] - 1  # the largest power of two within
        out = np.zeros(lengths.shape, np.int64)
        for each in np.unique(level[lengths > 0]).tolist():
            at = np.flatnonzero((level == each) & (lengths > 0))
            found = self._level(each)
            first, last = starts[at], ends[at] - (1 << each)
            out[at] = np.maximum(found[first], found[last])
        return out

    def forget(self) -> None:
        """Let go of what only makes asking faster."""
        del self._levels[1:]

    def _level(self, wanted: int) -> Ints:
        while len(self._levels) <= wanted:
            before, half = self._levels[-1], 1 << (len(self._levels) - 1)
            self._levels.append(np.maximum(before[:-half], before[half:]))
        return self._levels[wanted]
