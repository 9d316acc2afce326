"""Charts: frames in, Plotly figures out. Pure: no reading, no time, no state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cost.read import Window
from dashboards.budgets import BudgetPoint
from dashboards.control import AlertView, LeaseView
from dashboards.theme import Palette, layout
from slo.verdict import Verdict

_AREA = {"mode": "lines", "stackgroup": "all"}
_LINE = {"mode": "lines", "connectgaps": False}


def traffic(
    frame: pd.DataFrame, window: Window, colours: Palette, events: Sequence[Any] = ()
) -> go.Figure:
    """Stack good, bad and excluded requests per second."""
    figure = go.Figure(layout=layout(colours, unit="requests/s"))
    for name, colour in (
        ("good", colours.good),
        ("excluded", colours.excluded),
        ("bad", colours.bad),
    ):
        figure.add_trace(
            go.Scatter(
                x=frame.index,
                y=frame[name],
                name=name,
                line={"width": 1, "color": colour},
                fillcolor=faded(colour, 0.55),
                hovertemplate="%{y:.3g}/s",
                **_AREA,
            )
        )
    return mark_events(figure, events, window, colours)


def latency(
    frame: pd.DataFrame, window: Window, colours: Palette, events: Sequence[Any] = ()
) -> go.Figure:
    """Draw time to first token: the median, and how far the tail is from it."""
    figure = go.Figure(layout=layout(colours, unit="TTFT, ms"))
    for column, name, colour, width in (
        ("ttft_p99", "p99", colours.series[4], 1.2),
        ("ttft_p95", "p95", colours.series[1], 1.6),
        ("ttft_p50", "p50", colours.accent, 1.6),
    ):
        figure.add_trace(
            go.Scatter(
                x=frame.index,
                y=frame[column],
                name=name,
                line={"width": width, "color": colour},
                hovertemplate="%{y:,.0f} ms",
                **_LINE,
            )
        )
    return mark_events(figure, events, window, colours)


def burndown(
    points: Sequence[BudgetPoint], verdict: Verdict, colours: Palette, events: Sequence[Any] = ()
) -> go.Figure:
    """Draw the budget left over the window, with the even spend it may not exceed."""
    shape = layout(colours, unit="budget left, %")
    shape["yaxis"] |= {"rangemode": "normal", "ticksuffix": "", "zeroline": True}
    shape["yaxis"]["zerolinecolor"] = colours.bad
    figure = go.Figure(layout=shape)
    start = verdict.at - verdict.window
    figure.add_trace(
        go.Scatter(
            x=[start, verdict.at],
            y=[100, 0],
            name="even spend",
            mode="lines",
            line={"width": 1, "color": colours.dim, "dash": "dot"},
            hoverinfo="skip",
        )
    )
    colour = colours.bad if (verdict.budget_remaining or 0) < 0 else colours.accent
    figure.add_trace(
        go.Scatter(
            x=[point.at for point in points],
            y=[point.remaining * 100 for point in points],
            name="budget left",
            mode="lines",
            line={"width": 2, "color": colour, "shape": "hv"},
            fill="tozeroy",
            fillcolor=faded(colour, 0.12),
            hovertemplate="%{y:.1f} %",
        )
    )
    return mark_events(figure, events, Window(start, verdict.at), colours)


def spend(frame: pd.DataFrame, window: Window, colours: Palette, step_hours: float) -> go.Figure:
    """Stack dollars per hour: each group that used GPUs, then idle, then overhead.

    `frame` is indexed by time; "idle" and "overhead" are columns beside the groups.
    """
    figure = go.Figure(layout=layout(colours, unit="$ per hour", height=280))
    fixed = {"overhead": colours.overhead, "idle": colours.idle, "other": colours.excluded}
    groups = [name for name in frame.columns if name not in fixed]
    paint = {
        **fixed,
        **{n: colours.series[i % len(colours.series)] for i, n in enumerate(groups)},
    }
    for name in [*groups, *(n for n in ("other", "overhead", "idle") if n in frame.columns)]:
        figure.add_trace(
            go.Scatter(
                x=frame.index,
                y=frame[name] / step_hours,
                name=name,
                line={"width": 0.8, "color": paint[name], "shape": "hv"},
                fillcolor=faded(paint[name], 0.75),
                hovertemplate="$%{y:,.2f}/h",
                **_AREA,
            )
        )
    return mark_events(figure, (), window, colours)


def mark_events(
    figure: go.Figure, events: Sequence[Any], window: Window, colours: Palette
) -> go.Figure:
    """Shade while an alert fired, draw a line where the control loop acted; fix the time axis."""
    shapes, notes = [], list(figure.layout.annotations)
    for event in events:
        if isinstance(event, AlertView) and event.state != "pending":
            start, end = max(event.since, window.start), min(event.until or window.end, window.end)
            if start < end:
                shapes.append(_band(start, end, colours.bad))
        elif isinstance(event, LeaseView) and window.start <= event.created_at < window.end:
            shapes.append(_tick(event.created_at, colours.warn))
            notes.append(_note(event.created_at, event.kind, colours.warn))
    figure.update_layout(shapes=shapes, annotations=notes, xaxis_range=[window.start, window.end])
    return figure


def faded(colour: str, alpha: float) -> str:
    """Give a #rrggbb colour an alpha."""
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{alpha})"


def empty(colours: Palette, message: str, height: int = 240) -> go.Figure:
    """Draw nothing, and say why."""
    shape = layout(colours, unit="", height=height)
    shape["xaxis"] = shape["yaxis"] = {"visible": False}
    shape["annotations"] = [
        {
            "text": message,
            "xref": "paper",
            "yref": "paper",
            "x": 0.5,
            "y": 0.5,
            "showarrow": False,
            "font": {"size": 13, "color": colours.dim},
        }
    ]
    return go.Figure(layout=shape)


def _band(start: datetime, end: datetime, colour: str) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": start,
        "x1": end,
        "y0": 0,
        "y1": 1,
        "line": {"width": 0},
        "fillcolor": faded(colour, 0.09),
        "layer": "below",
    }


def _tick(at: datetime, colour: str) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": at,
        "x1": at,
        "y0": 0,
        "y1": 1,
        "line": {"width": 1, "color": colour, "dash": "dot"},
    }


def _note(at: datetime, text: str, colour: str) -> dict[str, Any]:
    return {
        "text": text,
        "x": at,
        "xref": "x",
        "yref": "paper",
        "y": 0.98,
        "yanchor": "top",
        "xanchor": "left",
        "showarrow": False,
        "font": {"size": 10, "color": colour},
        "textangle": 90,
    }
