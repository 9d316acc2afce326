"""Spans accepted over time, as a chart; what is not known is a gap. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dashboards import figures
from dashboards.figures import Chart, Kind, Series, around, short
from dashboards.ingest_reads import IntakeFacts

COLOURS: Mapping[str, str] = {"accepted": "good", "duplicates": "series-4", "late": "series-2"}

_HEIGHT = 240
_FIELDS = {"accepted": "accepted", "duplicates": "duplicate", "late": "late"}


def flow_chart(facts: IntakeFacts) -> Chart:
    """Draw accepted spans per second, and how many of them were duplicates or late."""
    step = facts.plan.step_s
    first, last = int(facts.plan.start.timestamp()), int(facts.plan.end.timestamp())
    starts = range(first, max(last, first + 1), step)
    known = [_covered(facts, start, step) for start in starts]
    if facts.first is None or not any(known):
        return figures.empty("Spans per second", "Nothing was stored in this time range", _HEIGHT)
    found = {each.start_s: each for each in facts.flow}
    series = []
    for name in shown(facts):
        values = tuple(
            short(getattr(found[start], _FIELDS[name]) / covered if start in found else 0.0)
            if covered
            else None
            for start, covered in zip(starts, known, strict=True)
        )
        kind: Kind = "area" if name == "accepted" else "line"
        series.append(Series(name, COLOURS[name], kind, values))
    return Chart(
        "Spans per second",
        height=_HEIGHT,
        unit="rate",
        at=tuple(start * 1000 for start in starts),
        series=tuple(series),
        **around(facts.window, ()),
    )


def shown(facts: IntakeFacts) -> list[str]:
    """Name the lines that have something to show."""
    return [
        name
        for name, field in _FIELDS.items()
        if name == "accepted" or any(getattr(each, field) for each in facts.flow)
    ]


def _covered(facts: IntakeFacts, start: int, step: int) -> float | None:
    """Say how many seconds of a step are known; None where none is.

    Nothing is known before the first batch, and of what still waits in the log.
    """
    if facts.first is None or start + step <= facts.first.timestamp():
        return None
    until = min(facts.now, facts.window.end)
    if facts.lag is not None and facts.lag.age is not None:
        until = min(until, facts.now - facts.lag.age)
    seconds = min(start + step, until.timestamp()) - start
    return seconds if seconds >= 1 else None
