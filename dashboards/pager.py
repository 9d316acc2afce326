"""Under a table that shows a part of its rows: which part, and the way to the others."""

from __future__ import annotations

from typing import Any, Protocol

from dash import dcc, html

from dashboards.state import with_search


class Paged(Protocol):
    """One page of a table: `first` counts from 1; `matching` rows are left of `every` one."""

    @property
    def first(self) -> int: ...
    @property
    def page(self) -> int: ...
    @property
    def pages(self) -> int: ...
    @property
    def matching(self) -> int: ...
    @property
    def every(self) -> int: ...


def pager(rows: Paged, shown: int, search: str, *, usual: str, is_usual: bool, order: str) -> Any:
    """Say which rows are shown, and in which order; `usual` names the order to go back to."""
    last = rows.first + shown - 1
    said = f"{rows.first} to {last} of {rows.matching:,}{order}" if shown else ""
    hidden = rows.matching - shown
    if hidden > 0:
        said += f"; {hidden:,} are not shown"
    if rows.matching != rows.every:
        said += f" ({rows.every:,} in all)"
    links = []
    for words, page in (("← Previous", rows.page - 1), ("Next →", rows.page + 1)):
        if 1 <= page <= rows.pages:
            href = with_search(search, page=str(page) if page > 1 else None) or "?"
            links.append(dcc.Link(words, href=href))
    if not is_usual:
        links.append(dcc.Link(usual, href=with_search(search, sort=None, page=None) or "?"))
    return html.Div([html.Span(said, className="dim"), *links], className="pager")
