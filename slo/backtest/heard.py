"""When a history's sources were heard: `slo.liveness` and the evaluator's floor, at many instants.

A verdict is frozen while the layer that counts requests is silent, and a tier is not judged where
too little of its windows was heard, so a backtest of a data folder must know when that was. A file
of requests says nothing of the kind: there the sources are taken to be alive throughout (`ALIVE`),
or heard only when they sent a request (`heard_by_requests`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from slo.backtest import runs
from slo.backtest.cells import Evaluations, Grid, Ints
from slo.liveness import LAYERS
from slo.settings import SloSettings
from slo.slices import Slices
from store.engine import Engine

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_MICROSECOND = timedelta(microseconds=1)
_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class HeardLayer:
    """What was heard of one layer, in microseconds since the epoch.

    `first` is in order; `last` is the latest event of all rows up to each. `minutes` are those in
    which something was heard, each once, in order.
    """

    first: Ints
    last: Ints
    minutes: Ints

    def last_by(self, now: Ints) -> tuple[Ints, Flags]:
        """Find the newest event known at each instant, and whether there was any."""
        place = np.searchsorted(self.first, now, side="right") - 1
        return np.minimum(self.last[np.maximum(place, 0)], now), place >= 0

    def coverage(self, now: Ints, window_us: int, last: Ints) -> Floats:
        """Say in which share of a window's whole minutes the layer was heard; 0: in none."""
        until = now // _MINUTE
        since = -(-(now - window_us) // _MINUTE)
        begun = np.searchsorted(self.minutes, np.stack((since, until)), side="left")
        covered = begun[1] - begun[0]
        expected = until - np.maximum(since, self.first[0] // _MINUTE)
        share = np.minimum(1.0, covered / np.maximum(expected, 1))
        return np.where(expected > 0, share, np.where(last > now - window_us, 1.0, 0.0))


Heard = Sequence[HeardLayer]
"""Outermost layer first."""

ALIVE: Heard | None = None
"""Nothing is known of the sources: they are taken to be alive throughout."""


@dataclass(frozen=True, slots=True)
class Silence:
    """When nothing is known of an SLO (`frozen`), and when too little is (`partial`)."""

    frozen: Ints
    partial: Ints
    shares: Mapping[timedelta, Floats]  # by window, for each evaluation from `first`
    first: int

    def heard(self, evaluations: Ints) -> dict[timedelta, Floats]:
        """Return what `slo.burn.judge_many` takes: shares of the windows heard too little."""
        return {length: share[evaluations - self.first] for length, share in self.shares.items()}


NO_SILENCE = Silence(runs.NOTHING, runs.NOTHING, {}, 0)


def read_heard(engine: Engine) -> Heard:
    """Read what a store knows of its sources."""
    table = engine.arrow(
        "SELECT layer, toInt64(toUInt32(minute)) AS at, "
        "toUnixTimestamp64Nano(min(first)) AS first_ns, "
        "toUnixTimestamp64Nano(max(last)) AS last_ns "
        "FROM source_minutes GROUP BY layer, minute, service, instance"
    )
    if not table.num_rows:
        return ()
    names = np.array(table.column("layer").to_pylist())
    minute = table.column("at").to_numpy() // 60
    first, last = (table.column(name).to_numpy() // 1000 for name in ("first_ns", "last_ns"))
    return [
        _layer(first[names == name], last[names == name], minute[names == name])
        for name in sorted(set(names.tolist()), key=_rank)
    ]


def heard_by_requests(starts_us: Ints) -> Heard:
    """Take the only signs of life to be the requests themselves."""
    return [_layer(starts_us, starts_us, starts_us // _MINUTE)] if starts_us.size else ()


def silence(
    heard: Heard | None,
    window: timedelta,
    windows: Sequence[timedelta],
    settings: SloSettings,
    grid: Grid,
    span: Evaluations,
    slices: Slices | None = None,
) -> Silence:
    """Find when the sources of an SLO were silent, or heard too little, in a span.

    Silence is up to each evaluation; windows of slices are covered up to where they end.
    """
    if heard is None:
        return NO_SILENCE
    now = np.arange(span.first, span.end) * (grid.every * grid.cell_us)
    chosen, newest, is_known = _deciding(heard, now, window // _MICROSECOND)
    frozen = ~is_known | (newest < now - settings.stale_after // _MICROSECOND)
    shares: dict[timedelta, Floats] = {}
    partial = np.zeros(now.size, bool)
    for length in windows:
        length_us = length // _MICROSECOND
        share = np.zeros(now.size)
        for number, layer in enumerate(heard):
            at = np.flatnonzero(chosen == number)
            if at.size and slices is None:
                share[at] = layer.coverage(now[at], length_us, newest[at])
            elif at.size and slices is not None:
                size_us = slices.length_ns // 1000
                until = now[at] // size_us * size_us
                last, has_sent = layer.last_by(until)
                share[at] = np.where(has_sent, layer.coverage(until, length_us, last), 0.0)
        missing = np.rint((1 - share) * length_us)  # as a timedelta rounds it
        too_little = (share < settings.coverage_floor) & (
            missing > settings.stale_after // _MICROSECOND
        )
        if too_little.any():
            shares[length] = np.where(too_little, share, 1.0)
            partial |= too_little
    first = span.first
    return Silence(runs.at_of(frozen) + first, runs.at_of(partial) + first, shares, first)


def _deciding(heard: Heard, now: Ints, window_us: int) -> tuple[Ints, Ints, Flags]:
    """Choose the outermost layer that is fresh, else the outermost ever heard, and its newest."""
    chosen = np.full(now.size, -1)
    newest = np.zeros(now.size, np.int64)
    is_fresh = np.zeros(now.size, bool)
    for number, layer in enumerate(heard):
        last, has_sent = layer.last_by(now)
        fresh = has_sent & (last > now - window_us)
        takes = has_sent & ~is_fresh & (fresh | (chosen < 0))
        chosen, newest = np.where(takes, number, chosen), np.where(takes, last, newest)
        is_fresh |= fresh
    return chosen, newest, chosen >= 0


def _layer(first: Ints, last: Ints, minutes: Ints) -> HeardLayer:
    order = np.argsort(first, kind="stable")
    distinct = np.sort(minutes)
    distinct = distinct[np.append(True, np.diff(distinct) > 0)]
    return HeardLayer(first[order], np.maximum.accumulate(last[order]), distinct)


def _rank(name: str) -> int:
    return LAYERS.index(name) if name in LAYERS else len(LAYERS)
