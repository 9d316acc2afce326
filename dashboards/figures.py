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

Event = AlertView | LeaseView

_AREA = {"mode": "lines", "stackgroup": "all"}
# Markers keep a measurement between two gaps visible.
_LINE = {"mode": "lines+markers", "marker": {"size": 3}, "connectgaps": False}


def traffic(
    frame: pd.DataFrame, window: Window, colours: Palette, events: Sequence[Event] = ()
) -> go.Figure:
    """Stack good, bad and excluded requests per second."""
    figure = go.Figure(layout=layout(colours))
    for name, colour in traffic_colours(colours).items():
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


def traffic_colours(colours: Palette) -> dict[str, str]:
    """Name what the traffic chart stacks, from the bottom."""
    return {"good": colours.good, "excluded": colours.excluded, "bad": colours.bad}


def latency(
    frame: pd.DataFrame, window: Window, colours: Palette, events: Sequence[Event] = ()
) -> go.Figure:
    """Draw time to first token: the median, and how far the tail is from it."""
    figure = go.Figure(layout=layout(colours))
    for name, colour in reversed(latency_colours(colours).items()):
        figure.add_trace(
            go.Scatter(
                x=frame.index,
                y=frame[f"ttft_{name}"],
                name=name,
                line={"width": 1.5, "color": colour},
                hovertemplate="%{y:,.0f} ms",
                **_LINE,
            )
        )
    return mark_events(figure, events, window, colours)


def latency_colours(colours: Palette) -> dict[str, str]:
    """Name the quantiles, the median first."""
    return {"p50": colours.accent, "p95": colours.series[1], "p99": colours.series[4]}


def burndown(
    points: Sequence[BudgetPoint], verdict: Verdict, colours: Palette, events: Sequence[Event] = ()
) -> go.Figure:
    """Draw the budget left over the window, with the even spend it may not exceed."""
    shape = layout(colours, height=250)
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


def spend(frame: pd.DataFrame, window: Window, colours: Palette, step_hours: int) -> go.Figure:
    """Stack dollars per hour: each group that used GPUs, then overhead, then idle.

    `frame` is indexed by the step's start; "other", "overhead" and "idle" are columns beside the
    groups. Steps touch, as hours do: it is an area with honest edges. The page has the legend.
    """
    shape = layout(colours, height=260)
    figure = go.Figure(layout=shape | {"barmode": "stack", "bargap": 0})
    step_ms = step_hours * 3_600_000
    for name, colour in spend_colours(frame, colours).items():
        figure.add_trace(
            go.Bar(
                x=frame.index,
                y=frame[name],
                name=name,
                width=step_ms,
                offset=0,
                marker={"color": faded(colour, 0.85), "line": {"width": 0}},
                hovertemplate="$%{y:,.2f}/h",
            )
        )
    return mark_events(figure, (), window, colours)


def spend_colours(frame: pd.DataFrame, colours: Palette) -> dict[str, str]:
    """Give each column its colour; idle, overhead and the rest have theirs on every page."""
    fixed = {"other": colours.excluded, "overhead": colours.overhead, "idle": colours.idle}
    groups = [name for name in frame.columns if name not in fixed]
    paint = {n: colours.series[i % len(colours.series)] for i, n in enumerate(groups)} | fixed
    return {name: paint[name] for name in frame.columns}


def mark_events(
    figure: go.Figure, events: Sequence[Event], window: Window, colours: Palette
) -> go.Figure:
    """Shade while an alert fired, draw a line where the control loop acted; fix the time axis."""
    shapes = []
    acts: list[LeaseView] = []
    for event in events:
        if isinstance(event, LeaseView):
            if window.start <= event.created_at < window.end:
                acts.append(event)
        elif event.state != "pending":
            start, end = max(event.since, window.start), min(event.until or window.end, window.end)
            if start < end:
                shapes.append(_band(start, end, colours.bad))
    shapes += [_tick(act.created_at, colours.warn) for act in acts]
    notes = _notes(acts, window, colours.warn)
    figure.update_layout(shapes=shapes, annotations=notes, xaxis_range=[window.start, window.end])
    return figure


def faded(colour: str, alpha: float) -> str:
    """Give a #rrggbb colour an alpha."""
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{alpha})"


def empty(colours: Palette, message: str, height: int = 222) -> go.Figure:
    """Draw nothing, and say why."""
    shape = layout(colours, height)
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


def _notes(acts: Sequence[LeaseView], window: Window, colour: str) -> list[dict[str, Any]]:
    """Name acts above the plot; what lies too close together to read is named once."""
    length = window.end - window.start
    groups: list[list[LeaseView]] = []
    for act in sorted(acts, key=lambda a: a.created_at):
        if groups and act.created_at - groups[-1][0].created_at < length * 0.05:
            groups[-1].append(act)
        else:
            groups.append([act])
    return [_note(group, window, colour) for group in groups]


def _note(group: Sequence[LeaseView], window: Window, colour: str) -> dict[str, Any]:
    at = group[0].created_at
    is_late = at > window.start + (window.end - window.start) * 0.85
    return {
        "text": ", ".join(dict.fromkeys(act.kind for act in group)),
        "x": at,
        "xref": "x",
        "yref": "paper",
        "y": 1,
        "yanchor": "top",
        "xanchor": "right" if is_late else "left",
        "xshift": -3 if is_late else 3,
        "showarrow": False,
        "font": {"size": 10.5, "color": colour},
    }
