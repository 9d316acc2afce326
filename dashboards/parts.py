"""Small pieces that every page is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dash import html, set_props

from base.clock import Clock
from dashboards.figures import Chart


def tile(label: str, value: str, note: str = "", tone: str = "") -> Any:
    """Show one number that matters, large, with what puts it in proportion below."""
    return html.Div(
        [
            html.Div(label, className="tile-label"),
            html.Div(value, className=f"tile-value {tone}"),
            html.Div(note, className="tile-note"),
        ],
        className="tile",
    )


def card(title: str, body: Any, note: Any = None, **attributes: Any) -> Any:
    """Frame a part of a page."""
    return html.Section(
        [
            html.Header(
                [html.H2(title), html.Div(note, className="card-note")], className="card-head"
            ),
            body,
        ],
        className="card " + attributes.pop("className", ""),
        **attributes,
    )


def graph(name: str, chart: Chart) -> Any:
    """Show a chart; `assets/chart.js` draws it wherever it appears, and again when it changes."""
    return html.Div(
        id=name,
        className="chart",
        style={"height": chart.height},
        **data(chart=chart.json()),
    )


def keys(colours: Mapping[str, str]) -> list[Any]:
    """Name a chart's colours beside it, where words may wrap."""
    return [
        html.Span(
            [html.I(className="swatch", style={"background": f"var(--{colour})"}), name],
            className="key",
        )
        for name, colour in colours.items()
    ]


def badge(text: str, tone: str) -> Any:
    """Name a state; `tone` is one of good, bad, warn, calm, frozen."""
    return html.Span(text, className=f"badge badge-{tone}")


def bar(left: float | None) -> Any:
    """Draw what is left of a budget; dashed where nothing is known, hatched where overspent."""
    if left is None:
        return html.Span(className="bar unknown")
    tone = "bad" if left < 0.1 else "warn" if left < 0.3 else "good"
    width = max(0.0, min(1.0, left)) * 100
    return html.Span(
        html.I(style={"width": f"{width:.1f}%"}, className=tone),
        className="bar" + (" overspent" if left < 0 else ""),
    )


def waiting(height: int) -> Any:
    """Hold the place of what is being read."""
    return html.Div(className="waiting", style={"height": height}, **aria(busy="true"))


def waiting_tiles() -> list[Any]:
    """Hold the place of a page's six numbers."""
    return [html.Div(waiting(54), className="tile") for _ in range(6)]


def nothing(message: str) -> Any:
    """Say that there is nothing, and what that means."""
    return html.Div(message, className="nothing")


def problem(title: str, message: str, tone: str) -> Any:
    """Say what is wrong or missing; `tone` is one of bad, warn, calm."""
    return html.Div([html.B(title), html.Span(message)], className=f"notice notice-{tone}")


def sparkline(values: Sequence[float], colour: str, width: int = 84, height: int = 22) -> Any:
    """Draw a trend small enough for a table cell; the image is a mask, the colour a variable's."""
    if len(values) < 2:
        return html.Span(className="spark")
    low, high = min(*values, 0.0), max(*values, 1.0)
    reach = (high - low) or 1.0
    points = " ".join(
        f"{i * (width - 2) / (len(values) - 1) + 1:.1f},"
        f"{(high - v) / reach * (height - 3) + 1.5:.1f}"
        for i, v in enumerate(values)
    )
    zero = high / reach * (height - 3) + 1.5
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
        f'<line x1="0" x2="{width}" y1="{zero:.1f}" y2="{zero:.1f}" stroke="#000"'
        ' stroke-opacity=".3"/>'
        f'<polyline points="{points}" fill="none" stroke="#000" stroke-width="1.5"/></svg>'
    )
    image = f"url('data:image/svg+xml,{quote(svg)}')"
    return html.Span(
        className="spark",
        style={"background": f"var(--{colour})", "WebkitMaskImage": image, "maskImage": image},
    )


def mark_loaded(clock: Clock) -> None:
    """Tell the header when the page was last true, and take away an earlier problem."""
    set_props("loaded", {"data": clock.now().timestamp() * 1000})
    set_props("problem", {"children": None})


def data(**values: str) -> dict[str, Any]:
    """Write data attributes: `data(chart="{}")`."""
    return {f"data-{name}": value for name, value in values.items()}


def aria(**names: str) -> dict[str, Any]:
    """Write aria attributes: `aria(label="Pages")`."""
    return {f"aria-{name}": value for name, value in names.items()}
