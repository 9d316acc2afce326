"""When a history's sources were heard: `slo.liveness`, for all evaluations at once.

A verdict is frozen while the layer that counts requests is silent, so a backtest of a data folder
must know when it was. A file of requests says nothing of the kind: there the sources are taken to
be alive throughout (`ALIVE`), or heard only when they sent a request (`heard_by_requests`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from slo.backtest import runs
from slo.backtest.cells import Grid, Ints
from slo.liveness import LAYERS
from store.engine import Engine

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class HeardLayer:
    """What was heard of one layer, minute by minute, in microseconds since the epoch.

    `first` is in order; `last` is the latest event of all minutes up to each.
    """

    first: Ints
    last: Ints

    def last_by(self, now: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Find the newest event known at each instant, and whether there was any."""
        place = np.searchsorted(self.first, now, side="right") - 1
        return np.minimum(self.last[np.maximum(place, 0)], now), place >= 0


Heard = Sequence[HeardLayer]
"""Outermost layer first."""

ALIVE: Heard | None = None
"""Nothing is known of the sources: they are taken to be alive throughout."""


def read_heard(engine: Engine) -> Heard:
    """Read what a store knows of its sources."""
    table = engine.arrow(
        "SELECT layer, toUnixTimestamp64Micro(toDateTime64(min(first), 6, 'UTC')) AS first_us, "
        "toUnixTimestamp64Micro(toDateTime64(max(last), 6, 'UTC')) AS last_us "
        "FROM source_minutes GROUP BY layer, minute, service, instance"
    )
    if not table.num_rows:
        return ()
    names = np.array(table.column("layer").to_pylist())
    first, last = (table.column(name).to_numpy() for name in ("first_us", "last_us"))
    return [
        heard_layer(first[names == name], last[names == name])
        for name in sorted(set(names.tolist()), key=_rank)
    ]


def heard_by_requests(starts_us: Ints) -> Heard:
    """Take the only signs of life to be the requests themselves."""
    return [heard_layer(starts_us, starts_us)] if starts_us.size else ()


def heard_layer(first: Ints, last: Ints) -> HeardLayer:
    order = np.argsort(first, kind="stable")
    return HeardLayer(first[order], np.maximum.accumulate(last[order]))


def frozen(
    heard: Heard | None,
    window: timedelta,
    stale_after: timedelta,
    grid: Grid,
    first: int,
    end: int,
) -> Ints:
    """Find the runs of evaluations in which nothing is known: the sources are silent or absent."""
    if heard is None:
        return runs.NOTHING
    now = np.arange(first, end) * (grid.every * grid.cell_us)
    since = now - window // _MICROSECOND
    newest = np.zeros(now.size, np.int64)
    is_known = np.zeros(now.size, bool)
    is_fresh = np.zeros(now.size, bool)
    for layer in heard:  # the outermost that is fresh decides, else the outermost ever heard
        last, has_sent = layer.last_by(now)
        fresh = has_sent & (last > since)
        newest = np.where(has_sent & ~is_fresh & (fresh | ~is_known), last, newest)
        is_known |= has_sent
        is_fresh |= fresh
    silent = ~is_known | (newest < now - stale_after // _MICROSECOND)
    return runs.at_of(silent) + first


def _rank(name: str) -> int:
    return LAYERS.index(name) if name in LAYERS else len(LAYERS)
