"""Type and colours of the controls. Everything else is painted by `assets/app.css`."""

from __future__ import annotations

from typing import Any

FONT = (
    'Inter, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans",'
    ' "DejaVu Sans Condensed", system-ui, sans-serif'
)
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
