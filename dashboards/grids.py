"""How every table looks: AG Grid in our colours, numbers right-aligned with units."""

from __future__ import annotations

from typing import Any

# The theme's parameters are CSS variables, so the table follows light and dark by itself.
_THEME = (
    "themeQuartz.withParams({"
    "backgroundColor: 'var(--surface)', foregroundColor: 'var(--text)',"
    "borderColor: 'var(--border)', headerBackgroundColor: 'var(--surface)',"
    "headerTextColor: 'var(--dim)', headerFontWeight: 500, headerFontSize: 12,"
    "fontFamily: 'inherit', fontSize: 13, accentColor: 'var(--accent)', spacing: 5,"
    "rowHoverColor: 'var(--hover)', wrapperBorder: false, wrapperBorderRadius: 0,"
    "headerColumnResizeHandleColor: 'transparent', columnBorder: false,"
    "selectedRowBackgroundColor: 'var(--hover)'})"
)

TABLE: dict[str, Any] = {"className": "grid", "style": {"width": "100%", "height": None}}


def grid_options(**more: Any) -> dict[str, Any]:
    """Options of every table; `more` wins."""
    options = {
        "theme": {"function": _THEME},
        "rowHeight": 34,
        "headerHeight": 34,
        "suppressCellFocus": True,
        "enableCellTextSelection": True,
        "animateRows": False,
        "suppressMovableColumns": True,
        **more,
    }
    return {name: value for name, value in options.items() if value is not None}


def formatted(field: str, title: str, form: str, width: int) -> dict[str, Any]:
    """Make a column written by one of the formats in `assets/grid.js`."""
    return {
        "field": field,
        "headerName": title,
        "valueFormatter": {"function": f"{form}(params.value)"},
        "width": width,
        "minWidth": width - 20,
        "type": "rightAligned",
    }


def number(field: str, title: str, form: str, width: int) -> dict[str, Any]:
    """Make a column of numbers, digits under digits."""
    return {**formatted(field, title, form, width), "cellClass": "num"}
