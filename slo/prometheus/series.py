"""Series of samples as arrays, one for each thing that was scraped. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from base.errors import Permanent

Identity = tuple[tuple[str, str], ...]
"""Labels without the metric's name, sorted."""

Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

HANDOVER_MS = 300_000
"""A replica that is silent for so long is stood in for by another."""

_AS_ONE_MS = 5000  # the samples of two replicas so near each other are of one moment


@dataclass(frozen=True, slots=True)
class Series:
    """Samples in the order of time, in milliseconds: `values` has a row for each quantity.

    All quantities were known at each of the times. `merged` says that several servers scraped it.
    """

    labels: Mapping[str, str]
    at: Times
    values: Values
    merged: bool = False

    def between(self, start: int, end: int) -> Series:
        inside = (self.at >= start) & (self.at < end)
        return Series(self.labels, self.at[inside], self.values[:, inside], self.merged)


def identity(labels: Mapping[str, str], without: Collection[str] = ()) -> Identity:
    left_out = {"__name__", *without}
    return tuple(sorted((key, value) for key, value in labels.items() if key not in left_out))


def read_series(
    result: Iterable[Mapping[str, Any]],
    start: int,
    end: int,
    *,
    replica_labels: Sequence[str] = (),
) -> dict[Identity, Series]:
    """Read plain samples of [start, end).

    Pieces of one series are joined, a time counts once, what is not finite is left out (a
    staleness marker is a NaN). Of several replicas one is taken at a time.
    """
    replicas: dict[Identity, dict[Identity, list[tuple[Times, Values]]]] = {}
    for each in result:
        labels = _labels(each)
        known = replicas.setdefault(identity(labels, replica_labels), {})
        pairs = each.get("values") or ()
        at = np.array([round(pair[0] * 1000) for pair in pairs], np.int64)
        values = np.array([float(pair[1]) for pair in pairs], np.float64)
        kept = (at >= start) & (at < end) & np.isfinite(values)
        if kept.any():
            known.setdefault(identity(labels), []).append((at[kept], values[kept]))
    return {
        key: series
        for key, found in replicas.items()
        if (series := _series(key, [found[one] for one in sorted(found)], start, end)) is not None
    }


def joined(first: Series, second: Series) -> Series:
    """Put quantities of one target beside each other, at the times when all were known."""
    at, left, right = np.intersect1d(first.at, second.at, assume_unique=True, return_indices=True)
    values = np.concatenate([first.values[:, left], second.values[:, right]])
    return Series(first.labels, at, values, first.merged or second.merged)


def read_histograms(
    result: Iterable[Mapping[str, Any]],
    start: int,
    end: int,
    threshold: float,
    *,
    replica_labels: Sequence[str] = (),
) -> dict[Identity, Series]:
    """Read native histograms of [start, end).

    Two quantities: all observations, and those in buckets that end at or under the threshold.
    """
    totals: list[dict[str, Any]] = []
    goods: list[dict[str, Any]] = []
    for each in result:
        pairs = [
            (at, float(histogram["count"]), _under(histogram, threshold))
            for at, histogram in _pairs(each, "histograms")
        ]
        for out, column in ((totals, 1), (goods, 2)):
            values = [(pair[0] / 1000, pair[column]) for pair in pairs]
            out.append({"metric": _labels(each), "values": values})
    total = read_series(totals, start, end, replica_labels=replica_labels)
    good = read_series(goods, start, end, replica_labels=replica_labels)
    return {key: joined(total[key], good[key]) for key in total.keys() & good.keys()}


def _under(histogram: Mapping[str, Any], threshold: float) -> float:
    return sum(
        float(count)
        for _, _, upper, count in histogram.get("buckets") or ()
        if float(upper) <= threshold
    )


def _series(
    key: Identity, replicas: Sequence[Sequence[tuple[Times, Values]]], start: int, end: int
) -> Series | None:
    tidy = [_in_order(pieces) for pieces in replicas if pieces]
    if not tidy:
        return None
    at, values = tidy[0]
    for other in tidy[1:]:
        at, values = _with_stand_in((at, values), other, start, end)
    return Series(dict(key), at, values[np.newaxis], merged=len(tidy) > 1)


def _in_order(pieces: Sequence[tuple[Times, Values]]) -> tuple[Times, Values]:
    """Join pieces; of samples of one time the first counts."""
    at, first = np.unique(np.concatenate([piece[0] for piece in pieces]), return_index=True)
    return at, np.concatenate([piece[1] for piece in pieces])[first]


def _with_stand_in(
    taken: tuple[Times, Values], other: tuple[Times, Values], start: int, end: int
) -> tuple[Times, Values]:
    """Follow one replica; where it is silent, another fills the gap."""
    edges = (start - _AS_ONE_MS, *taken[0].tolist(), end + _AS_ONE_MS)
    inside = np.zeros(other[0].size, bool)
    for before, after in pairwise(edges):
        if after - before > HANDOVER_MS:
            inside |= (other[0] > before + _AS_ONE_MS) & (other[0] < after - _AS_ONE_MS)
    return _in_order([taken, (other[0][inside], other[1][inside])])


def _labels(each: Mapping[str, Any]) -> dict[str, str]:
    metric = each.get("metric")
    if not isinstance(metric, dict):
        raise Permanent("a series of the answer has no labels: is this Prometheus' API?")
    return metric


def _pairs(each: Mapping[str, Any], key: str) -> Iterable[tuple[int, Any]]:
    for at, value in each.get(key) or ():
        yield round(float(at) * 1000), value
