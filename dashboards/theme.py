"""Colours and type, once, for charts and pages; light and dark.

A colour means one thing everywhere: good, bad, excluded and idle look the same on every chart.
`assets/app.css` carries the same values as CSS variables; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Scheme = Literal["light", "dark"]

FONT = (
    'Inter, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans",'
    ' "DejaVu Sans Condensed", system-ui, sans-serif'
)


@dataclass(frozen=True, slots=True)
class Palette:
    """One scheme's colours."""

    body: str
    surface: str
    border: str
    grid: str
    text: str
    dim: str
    accent: str
    good: str
    bad: str
    excluded: str
    idle: str
    overhead: str
    warn: str
    queue: str
    prefill: str
    decode: str
    series: tuple[str, ...]


LIGHT = Palette(
    body="#f6f7f9",
    surface="#ffffff",
    border="#e2e6ec",
    grid="#edf0f4",
    text="#1d2733",
    dim="#687587",
    accent="#2f6fb0",
    good="#2f9e8f",
    bad="#cf4a5a",
    excluded="#b3bcc8",
    idle="#d5dbe4",
    overhead="#b9a7cf",
    warn="#d08a1d",
    queue="#e2b65c",
    prefill="#5b8fd0",
    decode="#2f9e8f",
    series=("#2f6fb0", "#e0914a", "#4f9d69", "#8a6bbd", "#c25b7f", "#3d9db3", "#a8943a"),
)
DARK = Palette(
    body="#0e131a",
    surface="#151c25",
    border="#27313e",
    grid="#202935",
    text="#e4e9f0",
    dim="#8d9aab",
    accent="#6aa9e9",
    good="#45b8a6",
    bad="#ee6b79",
    excluded="#5a6675",
    idle="#35404e",
    overhead="#7d6c97",
    warn="#e5ab4c",
    queue="#d9ae57",
    prefill="#6c9fe0",
    decode="#45b8a6",
    series=("#6aa9e9", "#eaa261", "#6bbd86", "#a98bdc", "#df7f9f", "#5bbdd3", "#c9b658"),
)


def palette(scheme: str | None) -> Palette:
    """Pick the palette; anything but "dark" is light."""
    return DARK if scheme == "dark" else LIGHT


def layout(colours: Palette, height: int = 222) -> dict[str, Any]:
    """Lay out every chart alike: thin grid, one hover box, no toolbar.

    Legend and unit are on the page, in its own type and cheaper to draw.
    """
    axis = {
        "gridcolor": colours.grid,
        "linecolor": colours.border,
        "tickfont": {"color": colours.dim, "size": 11},
        "zeroline": False,
    }
    return {
        "height": height,
        "margin": {"l": 48, "r": 14, "t": 10, "b": 40},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": colours.text},
        "hovermode": "x unified",
        "hoverlabel": {
            "bgcolor": colours.surface,
            "bordercolor": colours.border,
            "font": {"color": colours.text, "size": 12, "family": FONT},
        },
        "showlegend": False,
        "xaxis": {
            **axis,
            "showgrid": False,
            "ticks": "outside",
            "ticklen": 4,
            "tickcolor": colours.border,
        },
        "yaxis": {**axis, "rangemode": "tozero", "showline": False, "nticks": 6},
        "uirevision": "keep",
        "template": "none",
    }


MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", monospace'


def mantine_theme() -> dict[str, Any]:
    """Configure Mantine: our type, small radii, our accent."""
    return {
        "fontFamily": FONT,
        "fontFamilyMonospace": MONO,
        "primaryColor": "weir",
        "primaryShade": {"light": 6, "dark": 4},
        "defaultRadius": "sm",
        "colors": {
            "dark": [
                "#e4e9f0",
                "#c3ccd8",
                "#8d9aab",
                "#5a6675",
                "#35404e",
                "#27313e",
                "#1b242f",
                "#151c25",
                "#0e131a",
                "#0a0e13",
            ],
            "weir": [
                "#eaf3fb",
                "#d5e5f4",
                "#a9cae9",
                "#8abbe8",
                "#6aa9e9",
                "#4a8ccb",
                "#2f6fb0",
                "#285f97",
                "#214e7c",
                "#193c60",
            ],
        },
    }
