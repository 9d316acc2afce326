"""Which sources feed the SLOs, how far their data reach, and how complete they are.

A request is counted once, from the outermost layer that saw it, so that layer decides: while it is
silent nobody knows whether requests fail, whatever the layers behind it still say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from base.durations import floor_to
from store.engine import Engine

LAYERS = ("gateway", "router", "engine", "llm", "client", "agent", "tool", "other")
"""Outermost first: the order in which a layer's spans are taken as the requests."""

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Layer:
    """The sources of one layer as of `now`: first and newest event, and coverage by window."""

    name: str
    first: datetime
    last: datetime
    coverage: Mapping[timedelta, float | None]


def read_layers(engine: Engine, windows: Iterable[timedelta], now: datetime) -> list[Layer]:
    """Read every layer that has sent anything by `now`, outermost first."""
    ordered = sorted(set(windows))
    minute = floor_to(now, _MINUTE)
    covered = "".join(
        f", uniqExactIf(minute, minute >= {{from_{number}:DateTime('UTC')}} "
        f"AND minute < {{until:DateTime('UTC')}}) AS covered_{number}"
        for number in range(len(ordered))
    )
    params: dict[str, datetime] = {"now": now, "until": minute}
    for number, window in enumerate(ordered):
        params[f"from_{number}"] = _first_whole_minute(now - window)
    rows = engine.rows(
        f"SELECT layer, min(at_first) AS first, max(at_last) AS last{covered} FROM ("
        "SELECT layer, minute, min(first) AS at_first, "
        "max(least(last, {now:DateTime64(9, 'UTC')})) AS at_last FROM source_minutes "
        "WHERE first <= {now:DateTime64(9, 'UTC')} GROUP BY layer, minute) GROUP BY layer",
        params,
    )
    layers = [
        Layer(
            name=row["layer"],
            first=row["first"],
            last=row["last"],
            coverage={
                window: share_of_minutes(
                    row[f"covered_{number}"], now - window, row["first"], row["last"], now
                )
                for number, window in enumerate(ordered)
            },
        )
        for row in rows
    ]
    return sorted(layers, key=lambda layer: _rank(layer.name))


def deciding_layer(layers: Sequence[Layer], since: datetime) -> Layer | None:
    """Choose the outermost layer heard since then, else the outermost ever heard."""
    return next((layer for layer in layers if layer.last > since), layers[0] if layers else None)


def share_of_minutes(
    covered: int, since: datetime, first: datetime, last: datetime, now: datetime
) -> float | None:
    """Share of the whole minutes of (since, now], from the first that was ever heard on."""
    start = max(_first_whole_minute(since), floor_to(first, _MINUTE))
    return _share(covered, start, floor_to(now, _MINUTE), fresh=last > since)


def _share(covered: int, start: datetime, end: datetime, *, fresh: bool) -> float | None:
    """Share of whole minutes; None where there was none to cover and nothing was heard."""
    expected = (end - start) // _MINUTE
    if expected <= 0:
        return 1.0 if fresh else None
    return min(1.0, covered / expected)


def _first_whole_minute(moment: datetime) -> datetime:
    floor = floor_to(moment, _MINUTE)
    return floor if floor == moment else floor + _MINUTE


def _rank(name: str) -> int:
    return LAYERS.index(name) if name in LAYERS else len(LAYERS)
