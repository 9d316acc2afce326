"""What a history holds, counted once per group and cell of time; windows are sums of cells.

A cell is the greatest time that divides the evaluation interval and every window, and holds the
requests that started in (c - 1, c] cells since the epoch. So a window (now - length, now] that ends
at an evaluation is a whole number of cells, and its count is exact to the nanosecond, as the live
evaluator's is. A slice of time is an event at its end: all windows are made of whole slices, so
those that end with the last slice over at an evaluation hold the same ends as those up to it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slo import guard
from slo.backtest.greatest import Greatest
from slo.exclusion import Excluded
from slo.guard import Tally
from slo.judged_rows import requests_judged
from slo.model import Slo
from slo.slices import Slices
from slo.weighed import alike
from slo.windows import FACTS, Span
from store.engine import Engine

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]
GOOD, BAD, EXCLUDED, PARTLY = 0, 1, 2, 3
"""What a request is; one that is partly bad is a bad one that ends a run (`slo.weighed`)."""
Weights = Sequence[Ints]
_WEIGHTS = ("goods", "bads", "excludeds")
Group = tuple[str, ...]
Key = tuple[str, Group]
"""SLO name and group."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_TABLE = 4_000_000  # cells; a month has 518,400 of five seconds
_FEW = 1000  # questions that are not worth a table


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of `cell_us` microseconds; evaluation number q happens at the end of cell q x every."""

    cell_us: int
    every: int  # cells between two evaluations

    def cells(self, span: timedelta) -> int:
        return span // _MICROSECOND // self.cell_us

    def at(self, evaluation: int) -> datetime:
        return _EPOCH + evaluation * self.every * self.cell_us * _MICROSECOND

    def begins(self, cell: int) -> datetime:
        return _EPOCH + (cell - 1) * self.cell_us * _MICROSECOND

    def first_from(self, moment: datetime) -> int:
        """Find the first evaluation at or after an instant."""
        return -(-((moment - _EPOCH) // _MICROSECOND) // (self.cell_us * self.every))

    def last_until(self, moment: datetime) -> int:
        """Find the last evaluation at or before an instant."""
        return (moment - _EPOCH) // _MICROSECOND // (self.cell_us * self.every)

    def evaluations(self, cells: Ints) -> Ints:
        """Find the first evaluation that sees each cell whole."""
        return np.asarray(-(-cells // self.every), np.int64)


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Evaluations [first, end)."""

    first: int
    end: int


def grid_of(every: timedelta, windows: Iterable[timedelta]) -> Grid:
    """Choose the greatest cell that divides all of them."""
    cell = math.gcd(*(span // _MICROSECOND for span in (every, *windows)))
    return Grid(cell, every // _MICROSECOND // cell)


@dataclass(frozen=True, slots=True)
class Cells:
    """One group of one SLO: the cells that hold requests, in order, and running sums.

    `bad`, `total` and `excluded` have one entry more than `at`: the sum of the first n cells. So
    has `run`: bad requests since the last good one when those cells are over. Where requests are
    weighed these are weights, and `behind` are the requests. Of an SLO of slices all that are
    slices; `sizes` are the judged requests of each that has some.
    """

    at: Ints
    bad: Ints
    total: Ints
    excluded: Ints
    run: Ints
    behind: Behind | None = None
    sizes: Ints | None = None
    _ranks: list[Ints] = field(default_factory=list)  # made when first needed, at most one

    def rank(self, cells: Ints) -> npt.NDArray[np.integer[Any]]:
        """Count the cells with requests up to and including each of these."""
        span = int(self.at[-1] - self.at[0]) + 1
        if span > _LONGEST_TABLE or (cells.size < _FEW and not self._ranks):
            return np.searchsorted(self.at, cells, side="right")
        if not self._ranks:
            held = np.zeros(span + 1, np.int32)
            held[self.at - self.at[0] + 1] = 1
            self._ranks.append(np.cumsum(held, dtype=np.int32))
        return np.asarray(self._ranks[0][np.clip(cells - self.at[0] + 1, 0, span)])

    def forget(self) -> None:
        """Let go of what only makes asking faster."""
        self._ranks.clear()
        if self.behind is not None:
            self.behind.heaviest.forget()

    @property
    def requests(self) -> Ints:
        """Judged requests of the first n cells."""
        return self.total if self.behind is None else self.behind.total

    @property
    def bad_requests(self) -> Ints:
        return self.bad if self.behind is None else self.behind.bad

    def window(self, ends: Ints, length: int) -> tuple[Ints, Ints]:
        """Count bad and all judged requests of the windows that end with these cells."""
        (found,) = self.windows(ends, [length])
        return found

    def windows(self, ends: Ints, lengths: Sequence[int]) -> list[tuple[Ints, Ints]]:
        upto = self.rank(ends)
        bad, total = self.bad[upto], self.total[upto]
        starts = (self.rank(ends - length) for length in lengths)
        return [(bad - self.bad[start], total - self.total[start]) for start in starts]

    def tallies(self, ends: Ints, lengths: Sequence[int]) -> list[Tally]:
        """Count the windows that end with these cells, as the guard takes them."""
        counted = self.windows(ends, lengths)
        if self.behind is None:
            return [Tally(*found) for found in counted]
        return [
            Tally(*found, self._behind(self.behind, ends, length))
            for found, length in zip(counted, lengths, strict=True)
        ]

    def bad_requests_in(self, ends: Ints, length: int) -> Ints:
        upto, before = self.rank(ends), self.rank(ends - length)
        return np.asarray(self.bad_requests[upto] - self.bad_requests[before], np.int64)

    def _behind(self, behind: Behind, ends: Ints, length: int) -> guard.Behind:
        upto, before = self.rank(ends), self.rank(ends - length)
        return guard.Behind(
            behind.total[upto] - behind.total[before],
            behind.bad[upto] - behind.bad[before],
            behind.heaviest.between(before, upto),
            (behind.squares[upto] - behind.squares[before]).astype(np.float64),
        )

    def excluded_in(self, end: int, length: int) -> int:
        upto, before = self.rank(np.array([end, end - length])).tolist()
        return int(self.excluded[upto] - self.excluded[before])

    def run_at(self, ends: Ints) -> Ints:
        """Count the bad requests since the last good one, at the end of these cells."""
        return np.asarray(self.run[self.rank(ends)], np.int64)

    @property
    def bad_at(self) -> Ints:
        """Name the cells that hold bad requests."""
        return np.asarray(self.at[np.diff(self.bad_requests) > 0], np.int64)


@dataclass(frozen=True, slots=True)
class Behind:
    """The requests behind weights, as running sums, and the heaviest one of each cell.

    `squares` are long doubles: what one heavy request leaves in a running sum must not be lost.
    """

    total: Ints
    bad: Ints
    heaviest: Greatest
    squares: npt.NDArray[np.longdouble]


class Gathered:
    """Judged requests as they come, in pieces; the order of the pieces does not matter."""

    def __init__(self) -> None:
        self._pieces: dict[Key, list[tuple[Ints, Codes, Weights]]] = defaultdict(list)
        self._slices: dict[str, Slices] = {}

    def expect(self, slos: Iterable[Slo]) -> None:
        """Say whose requests are judged by slices; call it before `cells`."""
        self._slices |= {slo.name: slo.slices for slo in slos if slo.slices is not None}

    def add(self, key: Key, at: Ints, judged: Codes, weights: Weights = ()) -> None:
        """Add requests: when they started, in nanoseconds, and what they are.

        `weights` are those of what is good, bad and excluded of each, where requests are weighed.
        """
        self._pieces[key].append((at, judged, weights))

    def newest(self) -> int | None:
        """Find the start of the newest request, in nanoseconds."""
        return max((int(at.max()) for at in self._times()), default=None)

    def oldest(self) -> int | None:
        return min((int(at.min()) for at in self._times()), default=None)

    def starts_us(self) -> Ints:
        """List when each SLO's and group's requests started, in microseconds."""
        return np.concatenate([at // 1000 for at in self._times()] or [np.zeros(0, np.int64)])

    def cells(self, grid: Grid, until_ns: int | None = None) -> dict[Key, Cells]:
        """Count cells, of the requests that started, or the slices that were over, by then.

        Lets go of the pieces.
        """
        found: dict[Key, Cells] = {}
        for key in sorted(self._pieces):
            pieces = [(at, judged, *weights) for at, judged, weights in self._pieces.pop(key)]
            at, judged, *weights = map(np.concatenate, zip(*pieces, strict=True))
            sizes = None
            if key[0] in self._slices:
                at, judged, sizes = judge_slices(at, judged, self._slices[key[0]])
            if until_ns is not None:
                weights = [each[at <= until_ns] for each in weights]
                at, judged = at[at <= until_ns], judged[at <= until_ns]
            if at.size:
                found[key] = replace(count_cells(at, judged, grid, weights), sizes=sizes)
        return found

    def _times(self) -> Iterator[Ints]:
        return (at for pieces in self._pieces.values() for at, _, _ in pieces)


def read_judged(
    engine: Engine,
    slos: Sequence[Slo],
    spans: Sequence[Span],
    into: Gathered,
    *,
    facts: str = "facts FINAL",
    excluded: Sequence[Excluded] = (),
) -> None:
    """Judge the requests of some spans of time with the live evaluator's own SQL and add them.

    `facts` is where requests are read from, as `slo.judged_rows` takes it.
    """
    into.expect(slos)
    if not spans:
        return
    for some in alike(slos):
        table = engine.arrow(_query(some, spans, facts, excluded))
        if not table.num_rows:
            continue
        names, groups = table.column("slo").to_pylist(), table.column("group").to_pylist()
        wanted = ("starts", "judged", *(_WEIGHTS if some[0].is_weighted else ()))
        lists = (_parts(table.column(name)) for name in wanted)
        for name, group, at, judged, *weights in zip(names, groups, *lists, strict=True):
            into.add((name, tuple(group)), at, judged, [each.astype(np.int64) for each in weights])


def count_cells(at: Ints, judged: Codes, grid: Grid, weights: Weights = ()) -> Cells:
    """Sum requests by the cell they started in, whatever order they come in.

    Of requests that started at the same nanosecond, the good ones count as the later.
    """
    ends_run = (judged == GOOD) | (judged == PARTLY)
    order = np.lexsort((ends_run, at)) if np.any(np.diff(at) <= 0) else slice(None)
    at, judged, weights = at[order], judged[order], [each[order] for each in weights]
    cell = (at - 1) // (grid.cell_us * 1000) + 1
    first = np.flatnonzero(np.concatenate((np.ones(1, bool), np.diff(cell) > 0)))
    bad, total, excluded = (
        _running(np.add.reduceat(flags, first, dtype=np.int64))
        for flags in ((judged == BAD) | (judged == PARTLY), judged != EXCLUDED, judged == EXCLUDED)
    )
    runs = _runs(judged, first)
    if not weights:
        return Cells(cell[first], bad, total, excluded, runs)
    good_weight, bad_weight, excluded_weight = (
        _running(np.add.reduceat(each, first, dtype=np.int64)) for each in weights
    )
    each = weights[0] + weights[1]
    squares = np.add.reduceat(each.astype(np.longdouble) ** 2, first)
    squares = np.concatenate((np.zeros(1, np.longdouble), np.cumsum(squares)))
    behind = Behind(total, bad, Greatest(np.maximum.reduceat(each, first)), squares)
    return Cells(cell[first], bad_weight, good_weight + bad_weight, excluded_weight, runs, behind)


def judge_slices(at: Ints, judged: Codes, slices: Slices) -> tuple[Ints, Codes, Ints]:
    """Turn requests into slices: when each ends, what it is, and the sizes of those with requests.

    Sizes count judged requests.
    """
    number = at // slices.length_ns
    order = np.argsort(number, kind="stable")
    number, judged = number[order], judged[order]
    first = np.flatnonzero(np.concatenate((np.ones(1, bool), np.diff(number) > 0)))
    good, bad = (
        np.add.reduceat(judged == code, first, dtype=np.int64) for code in (GOOD, BAD)
    )  # fmt: skip
    share = slices.share
    is_good = good * share.denominator >= (good + bad) * share.numerator
    codes = np.where(good + bad == 0, EXCLUDED, np.where(is_good, GOOD, BAD)).astype(np.uint8)
    sizes = good + bad
    return (number[first] + 1) * slices.length_ns, codes, sizes[sizes > 0]


def _runs(judged: Codes, first: Ints) -> Ints:
    """Count, at the end of every cell, the bad requests since the last good one."""
    bad_so_far = _running(judged == BAD)
    ends_run = (judged == GOOD) | (judged == PARTLY)
    upto_good = np.maximum.accumulate(np.where(ends_run, bad_so_far[1:], 0))
    last = np.append(first[1:], judged.size) - 1
    return np.concatenate((np.zeros(1, np.int64), bad_so_far[last + 1] - upto_good[last]))


def _running(counts: npt.NDArray[Any]) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def _query(
    slos: Sequence[Slo], spans: Sequence[Span], facts: str, excluded: Sequence[Excluded]
) -> str:
    # One entry a request: summing them here takes the engine ten times the memory.
    what, weights = f"toUInt8(bad * {BAD} + excluded * {EXCLUDED})", ""
    if slos[0].is_weighted:
        what = f"multiIf(requests = 0, {EXCLUDED}, tail = 1, {BAD}, bad_requests = 1, {PARTLY}, 0)"
        weights = "".join(
            f", groupArray({name}) AS {name}s" for name in ("good", "bad", "excluded")
        )
    return f"""
SELECT slo, group, groupArray(at) AS starts, groupArray(toUInt8({what})) AS judged{weights}
FROM ({requests_judged(slos, {FACTS: spans}, excluded, facts)})
GROUP BY slo, group"""


def _parts(column: pa.ChunkedArray) -> Iterator[npt.NDArray[Any]]:
    for chunk in column.chunks:
        values, edges = chunk.values.to_numpy(), chunk.offsets.to_numpy()
        for start, end in pairwise(edges.tolist()):
            yield values[start:end]
