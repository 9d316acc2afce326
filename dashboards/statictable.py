"""A table's first rows as plain HTML, from the columns that the live table is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from dashboards.state import with_search
from dashboards.wording import count, dollars, hours, millis

SHOWN = 60  # more than fit on a screen

Column = Mapping[str, Any]
Row = Mapping[str, Any]


class Markup(str):
    """Text that is HTML already; everything in it that came from outside is escaped."""

    __slots__ = ()


def table(columns: Sequence[Column], rows: Sequence[Row], search: str) -> Markup:
    """Write a header and the first rows; widths follow the rules of the live table."""
    template = " ".join(_width(column, columns) for column in columns)
    head = "".join(
        f'<span role="columnheader" class="{_align(column)}">{escape(column["headerName"])}</span>'
        for column in columns
    )
    body = "".join(
        f'<div role="row">{"".join(_cell(column, row, search) for column in columns)}</div>'
        for row in rows[:SHOWN]
    )
    return Markup(
        f'<div class="still-table" role="table" style="--columns:{template}">'
        f'<div role="row">{head}</div>{body}</div>'
    )


def _width(column: Column, columns: Sequence[Column]) -> str:
    least = column["minWidth"]
    if "flex" in column:
        return f"minmax({least}px,{column['flex']}fr)"
    most = f"{column['width']}px" if any("flex" in c for c in columns) else f"{column['width']}fr"
    return f"minmax({least}px,{most})"


def _align(column: Column) -> str:
    return "num" if column.get("type") == "rightAligned" else ""


def _cell(column: Column, row: Row, search: str) -> str:
    value, classes = row.get(column["field"]), [_align(column), column.get("cellClass", "")]
    classes += [
        cls for cls, rule in column.get("cellClassRules", {}).items() if _RULES[rule](value, row)
    ]
    if "cellRenderer" in column:
        inside = _RENDERED[column["cellRenderer"]](value, row, search)
    elif "valueGetter" in column:
        inside = escape(_group_name(column["valueGetter"]["function"], column["field"], row))
    else:
        form = column["valueFormatter"]["function"].partition("(")[0]
        inside = escape(_FORMATS[form](value))
    return f'<span role="cell" class="{" ".join(filter(None, classes))}">{inside}</span>'


def text(value: str | None) -> str:
    return value or "unknown"


def _group_name(getter: str, name: str, row: Row) -> str:
    """Name idle and overhead rows in the first column, as `groupName` does."""
    if row["kind"] == "used":
        return text(row.get(name))
    return row.get(name) or (row["kind"] if getter.endswith("true)") else "")


def _started(value: str, row: Row, search: str) -> str:
    href = escape(with_search(search, trace=row["trace_id"]))
    return f'<a href="{href}">{escape(f"{value[5:10]} {value[11:23]}")}</a>'


def _outcome(value: str, row: Row, _search: str) -> str:
    reason = row.get("outcome_reason")
    words = reason.replace("_", " ") if reason and reason != "ok" else value
    return f'<span class="outcome outcome-{escape(value)}"><i></i>{escape(words)}</span>'


def _share(value: float | None, row: Row, _search: str) -> str:
    share, bar = row.get("share"), ""
    if share is not None:
        width = f"{max(0.0, share * 100):.5g}%"
        bar = f'<i class="share-{escape(row["kind"])}" style="width:{width}"></i>'
    return f'<span class="share">{bar}<b>{dollars(value)}</b></span>'


_RULES: Mapping[str, Callable[[Any, Row], bool]] = {
    "params.value == null": lambda value, _row: value is None,
    "params.data.kind !== 'used'": lambda _value, row: row["kind"] != "used",
}
_RENDERED: Mapping[str, Callable[[Any, Row, str], str]] = {
    "Started": _started,
    "Outcome": _outcome,
    "Share": _share,
}
# The formats of assets/grid.js, by the same names; a test holds the two together.
_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "dollars": dollars,
    "count": count,
    "millis": millis,
    "hours": hours,
    "text": text,
}
