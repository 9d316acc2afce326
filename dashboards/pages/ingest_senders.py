"""Who sends: one row a credential and tenant, the worst first, a page at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dash import dcc, html

from dashboards.ingest_state import IngestView, next_sort
from dashboards.intake import NOBODY, SenderRow
from dashboards.intake_words import RECENT, SILENT, ago, reason_words
from dashboards.pager import pager
from dashboards.parts import aria, nothing
from dashboards.state import with_search
from dashboards.wording import UNKNOWN, count

SHOWN = 50

_COLUMNS = (
    ("source", "Source", ""),
    ("tenant", "Tenant", ""),
    ("accepted", "Accepted", "num"),
    ("duplicate", "Duplicates", "num wide"),
    ("late", "Late", "num wide"),
    ("refused", "Refused", "num"),
    ("rejected", "Invalid", "num wide"),
    ("letters", "Dead letters", "num wide"),
    ("last", "Last seen", "num"),
)


@dataclass(frozen=True, slots=True)
class Rows:
    """One page of senders. `first` counts from 1; `matching` were found of `every`."""

    senders: Sequence[SenderRow]
    first: int
    matching: int
    every: int
    page: int
    pages: int


def rows_of(senders: Sequence[SenderRow], view: IngestView, now: datetime) -> Rows:
    """Find, sort and cut; a page past the end is the last one."""
    wanted = view.find.casefold()
    found = [
        row
        for row in senders
        if not wanted or any(wanted in text.casefold() for text in (row.source, row.tenant))
    ]
    pages = max(1, math.ceil(len(found) / SHOWN))
    page = min(view.page, pages)
    start = (page - 1) * SHOWN
    shown = ordered(found, view, now)[start : start + SHOWN]
    return Rows(shown, start + 1, len(found), len(senders), page, pages)


def ordered(senders: Sequence[SenderRow], view: IngestView, now: datetime) -> list[SenderRow]:
    """Sort by a column; what is not known comes last either way, and ties by trouble."""
    worst = sorted(senders, key=lambda row: _trouble(row, now))
    if view.sort == "trouble":
        return worst[::-1] if view.is_descending else worst
    key = _KEYS[view.sort]
    known = [row for row in worst if key(row) is not None]
    known.sort(key=key, reverse=view.is_descending)
    return [*known, *(row for row in worst if key(row) is None)]


def table(senders: Sequence[SenderRow], view: IngestView, search: str, now: datetime) -> Any:
    """Show one page of senders; a click on a head sorts by it."""
    if not senders:
        return nothing(
            "Nobody has sent anything. Point OTEL_EXPORTER_OTLP_ENDPOINT at the receiver's port."
        )
    rows = rows_of(senders, view, now)
    head = html.Tr([_head(name, title, css, view, search) for name, title, css in _COLUMNS])
    body = [_row(row, now) for row in rows.senders]
    if not body:
        said = nothing(f"No source or tenant contains {view.find!r}.")
        body = [html.Tr(html.Td(said, colSpan=len(_COLUMNS)))]
    return html.Div(
        [
            html.Div(
                html.Table([html.Thead(head), html.Tbody(body)], className="ledger senders"),
                className="scroll",
            ),
            _pager(rows, view, search),
        ]
    )


def _trouble(row: SenderRow, now: datetime) -> tuple[Any, ...]:
    """Refused now, then lost something, then refused at all, then silent, then by size."""
    refusing = any(r.last is not None and now - r.last < RECENT for r in row.refusals or ())
    silent = row.last is None or now - row.last > SILENT
    return (
        not refusing, -row.lost, -(row.refused or 0), not silent, -row.accepted, row.source,
        row.tenant,
    )  # fmt: skip


def _head(name: str, title: str, css: str, view: IngestView, search: str) -> Any:
    is_sorted = view.sort == name
    direction = "descending" if view.is_descending else "ascending"
    href = with_search(search, sort=next_sort(view, name), page=None)
    arrow = (" ↓" if view.is_descending else " ↑") if is_sorted else ""
    return html.Th(
        dcc.Link(f"{title}{arrow}", href=href),
        scope="col",
        className=css,
        **aria(sort=direction if is_sorted else "none"),
    )


def _row(row: SenderRow, now: datetime) -> Any:
    is_silent = row.last is not None and now - row.last > SILENT
    return html.Tr(
        [
            html.Td(row.source, className="sender-name"),
            html.Td(_tenant(row)),
            html.Td(count(row.accepted), className="num"),
            html.Td(count(row.duplicate), className="num dim wide"),
            html.Td(count(row.late), className="num dim wide"),
            html.Td(_refused(row, now), className="num"),
            html.Td(count(row.rejected), className=_tone("num wide", row.rejected)),
            html.Td(count(row.letters), className=_tone("num wide", row.letters)),
            html.Td(ago(row.last, now), className="num warn" if is_silent else "num"),
        ]
    )


def _tenant(row: SenderRow) -> Any:
    if row.tenant:
        return row.tenant
    if row.source == NOBODY:
        return html.Span(UNKNOWN, className="dim")
    return html.Span("as the spans say", className="dim")


def _refused(row: SenderRow, now: datetime) -> list[Any]:
    if row.refusals is None:
        return [UNKNOWN]
    if not row.refusals:
        return ["0"]
    worst = sorted(row.refusals, key=lambda each: -each.requests)
    words = ", ".join(f"{count(each.requests)} {reason_words(each.reason)}" for each in worst)
    if len(worst) == 1:
        words = reason_words(worst[0].reason)
    last = max((each.last for each in worst if each.last), default=None)
    when = f", last {ago(last, now)}" if last else ""
    return [
        html.Span(count(row.refused), className="bad"),
        html.Div(words + when, className="dim refused-why"),
    ]


def _tone(css: str, number: int | None) -> str:
    return f"{css} bad" if number else f"{css} dim"


def _pager(rows: Rows, view: IngestView, search: str) -> Any:
    is_usual = view.sort == "trouble"
    order = ", the worst first" if is_usual and not view.is_descending else ""
    return pager(
        rows, len(rows.senders), search, usual="Worst first", is_usual=is_usual, order=order
    )


_KEYS: Mapping[str, Callable[[SenderRow], Any]] = {
    "source": lambda row: row.source,
    "tenant": lambda row: row.tenant or None,
    "accepted": lambda row: row.accepted,
    "duplicate": lambda row: row.duplicate,
    "late": lambda row: row.late,
    "refused": lambda row: row.refused,
    "rejected": lambda row: row.rejected,
    "letters": lambda row: row.letters,
    "last": lambda row: row.last,
}
