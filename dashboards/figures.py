"""Charts as data: frames in, what `assets/chart.js` draws out. Pure: no reading, no time, no state.

Colours are names of CSS variables, so a chart follows light and dark without being asked for again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import pandas as pd

from cost.read import Window
from dashboards.control import AlertView, LeaseView

Event = AlertView | LeaseView
Kind = Literal[
    "area", "line", "step", "bars"
]  # areas and bars are stacked, the first at the bottom
Unit = Literal["rate", "ms", "dollars", "percent"]

TRAFFIC_COLOURS = {"good": "good", "excluded": "excluded", "bad": "bad"}
LATENCY_COLOURS = {"p50": "series-1", "p95": "series-2", "p99": "series-5"}
_GROUP_COLOURS = tuple(f"series-{i}" for i in range(1, 8))
_FIXED_COLOURS = {"other": "excluded", "overhead": "overhead", "idle": "idle"}


@dataclass(frozen=True, slots=True)
class Series:
    """One name and colour; `y` is aligned with the chart's `at`, None is a gap."""

    name: str
    colour: str
    kind: Kind
    y: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Band:
    """A time in which an alert fired, or in which requests do not count; pointing reads `words`."""

    start: int
    end: int
    kind: Literal["fired", "left-out"] = "fired"
    words: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment: the control loop acted, a document changed, now, or what is foreseen.

    Without words where a neighbour has them.
    """

    at: int
    words: str = ""
    kind: Literal["act", "edit", "now", "foreseen"] = "act"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is foreseen, as (time, value): a line, and the outline of where it may lie."""

    line: tuple[tuple[int, float], ...]
    area: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything a chart shows. Times are milliseconds since the epoch.

    `step` is the width of a bar; `guide` a dotted line of (time, value); `says` is read aloud
    after the numbers; `empty` says why there is nothing to draw.
    """

    title: str
    height: int = 222
    start: int = 0
    end: int = 0
    unit: Unit = "rate"
    step: int = 0
    at: tuple[int, ...] = ()
    series: tuple[Series, ...] = ()
    bands: tuple[Band, ...] = ()
    marks: tuple[Mark, ...] = ()
    guide: tuple[tuple[int, float], ...] = ()
    outlook: Outlook | None = None
    says: str = ""
    empty: str = ""

    def json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False)


def traffic(frame: pd.DataFrame, window: Window, events: Sequence[Event] = ()) -> Chart:
    """Stack good, excluded and bad requests per second."""
    return Chart(
        "Requests per second",
        unit="rate",
        at=_times(frame.index),
        series=tuple(_column(frame, n, n, c, "area") for n, c in TRAFFIC_COLOURS.items()),
        **around(window, events),
    )


def latency(frame: pd.DataFrame, window: Window, events: Sequence[Event] = ()) -> Chart:
    """Draw time to first token: the median, and how far the tail is from it."""
    return Chart(
        "Time to first token",
        unit="ms",
        at=_times(frame.index),
        series=tuple(
            _column(frame, f"ttft_{name}", name, colour, "line")
            for name, colour in reversed(LATENCY_COLOURS.items())
        ),
        **around(window, events),
    )


def spend(frame: pd.DataFrame, window: Window, step_hours: int) -> Chart:
    """Stack dollars per hour: each group that used GPUs, then overhead, then idle.

    `frame` is indexed by the step's start; "other", "overhead" and "idle" are columns beside the
    groups. Steps touch, as hours do: it is an area with honest edges. The page has the legend.
    """
    return Chart(
        "Dollars per hour",
        height=260,
        unit="dollars",
        step=step_hours * 3_600_000,
        at=_times(frame.index),
        series=tuple(_column(frame, n, n, c, "bars") for n, c in spend_colours(frame).items()),
        **around(window, ()),
    )


def spend_colours(frame: pd.DataFrame) -> dict[str, str]:
    """Give each column its colour; idle, overhead and the rest have theirs on every page."""
    groups = [name for name in frame.columns if name not in _FIXED_COLOURS]
    paint = {name: _GROUP_COLOURS[i % len(_GROUP_COLOURS)] for i, name in enumerate(groups)}
    return {name: _FIXED_COLOURS.get(name) or paint[name] for name in frame.columns}


def empty(title: str, message: str, height: int = 222) -> Chart:
    """Draw nothing, and say why."""
    return Chart(title, height=height, empty=message)


def around(window: Window, events: Iterable[Event]) -> dict[str, Any]:
    """Fix the time axis; shade while an alert fired, mark where the control loop acted."""
    acts: list[LeaseView] = []
    fired: list[tuple[datetime, datetime]] = []
    for event in events:
        if isinstance(event, LeaseView):
            if window.start <= event.created_at < window.end:
                acts.append(event)
        elif event.state != "pending":
            start, end = max(event.since, window.start), min(event.until or window.end, window.end)
            if start < end:
                fired.append((start, end))
    return {
        "start": ms(window.start),
        "end": ms(window.end),
        "bands": tuple(Band(ms(start), ms(end)) for start, end in _joined(fired)),
        "marks": tuple(_marks(acts, window)),
    }


def _joined(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Join what overlaps: two alerts at once are no darker than one."""
    out: list[tuple[datetime, datetime]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def _marks(acts: Sequence[LeaseView], window: Window) -> list[Mark]:
    """Mark every act; what lies too close together to read is named once, at the first."""
    near = (window.end - window.start) * 0.05
    groups: list[list[LeaseView]] = []
    for act in sorted(acts, key=lambda a: a.created_at):
        if groups and act.created_at - groups[-1][0].created_at < near:
            groups[-1].append(act)
        else:
            groups.append([act])
    return [
        Mark(ms(act.created_at), ", ".join(dict.fromkeys(a.kind for a in group)) if not i else "")
        for group in groups
        for i, act in enumerate(group)
    ]


def _column(frame: pd.DataFrame, column: str, name: str, colour: str, kind: Kind) -> Series:
    return Series(name, colour, kind, tuple(short(value) for value in frame[column].tolist()))


def short(value: float | None) -> float | None:
    """Keep five digits: more than a chart shows, and a third of the bytes."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.5g}")


def _times(index: pd.Index[Any]) -> tuple[int, ...]:
    return tuple(ms(at) for at in index)


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
