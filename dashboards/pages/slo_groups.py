"""The groups of one SLO as a table: sorted by any column, a page at a time, the worst first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import dcc, html

from base.durations import format_duration
from base.labels import in_address
from dashboards.pager import pager
from dashboards.parts import aria, badge, bar, nothing
from dashboards.slo_state import SloView, sort_address
from dashboards.state import with_search
from dashboards.verdict_words import (
    TONES,
    WORDS,
    amount,
    by_urgency,
    forecast_words,
    leading,
    reached,
    steady_tier,
    target,
)
from dashboards.wording import UNKNOWN, burn, dollars, percent
from slo.verdict import Verdict

SHOWN = 50

Key = Callable[[Verdict], Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """One page of groups. `first` counts from 1; `matching` were found of `every`."""

    verdicts: Sequence[Verdict]
    first: int
    matching: int
    every: int
    page: int
    pages: int


def rows_of(verdicts: Sequence[Verdict], view: SloView) -> Rows:
    """Find, sort and cut; a page past the end is the last one."""
    wanted = view.find.casefold()
    found = [
        v
        for v in verdicts
        if not wanted or any(wanted in value.casefold() for value in v.group.values())
    ]
    pages = max(1, math.ceil(len(found) / SHOWN))
    page = min(view.page, pages)
    start = (page - 1) * SHOWN
    shown = ordered(found, view.sort, is_descending=view.is_descending)[start : start + SHOWN]
    return Rows(shown, start + 1, len(found), len(verdicts), page, pages)


def ordered(verdicts: Sequence[Verdict], sort: str, *, is_descending: bool) -> list[Verdict]:
    """Sort by a column; what is not known comes last either way, and ties by urgency."""
    urgent = by_urgency(verdicts)
    if sort not in _KEYS:
        return urgent[::-1] if is_descending else urgent
    key = _KEYS[sort]
    known = [v for v in urgent if key(v) is not None]
    known.sort(key=key, reverse=is_descending)
    return [*known, *(v for v in urgent if key(v) is None)]


def table(verdicts: Sequence[Verdict], chosen: Verdict, view: SloView, search: str) -> Any:
    """Show one page of groups; a click on a row shows that group."""
    rows = rows_of(verdicts, view)
    names = list(next((v.group for v in verdicts if v.group), {}))
    tier = steady_tier(chosen)
    columns = [
        ("group", " · ".join(names).replace("_", " ").capitalize() or "Group", ""),
        ("target", "Target", "num wide"),
        ("sli", "SLI" if chosen.cost is None else "A unit costs", "num"),
        ("budget", "Budget left", ""),
        ("burn", f"Burn, {format_duration(tier.long)}" if tier else "Burn", "num"),
        ("bad", "Bad" if chosen.cost is None else "Spent", "num"),
        ("total", "Total" if chosen.cost is None else "Units", "num wide"),
        ("state", "State", ""),
    ]
    head = html.Tr(
        [_head(name, title, css, view, search) for name, title, css in columns]
        + [html.Th("Forecast, and what burns", scope="col", className="wide")]
    )
    body = [_row(v, v is chosen, search) for v in rows.verdicts]
    if not body:
        body = [html.Tr(html.Td(nothing(f"No group contains {view.find!r}."), colSpan=9))]
    return html.Div(
        [
            html.Div(
                html.Table([html.Thead(head), html.Tbody(body)], className="ledger groups"),
                className="scroll",
            ),
            _pager(rows, view, search),
        ]
    )


def _head(name: str, title: str, css: str, view: SloView, search: str) -> Any:
    is_sorted = view.sort == name
    direction = "descending" if view.is_descending else "ascending"
    href = with_search(search, sort=sort_address(view, name), page=None)
    arrow = (" ↓" if view.is_descending else " ↑") if is_sorted else ""
    return html.Th(
        dcc.Link(f"{title}{arrow}", href=href),
        scope="col",
        className=css,
        **aria(sort=direction if is_sorted else "none"),
    )


def _row(verdict: Verdict, is_chosen: bool, search: str) -> Any:
    left = verdict.budget_remaining
    href = with_search(search, group=in_address(verdict.group)) or "?"
    name = " · ".join(value or "unknown" for value in verdict.group.values()) or "all"
    notes = [leading(verdict) if verdict.bad else "", forecast_words(verdict)]
    burning = any(tier.burning for tier in verdict.tiers)
    return html.Tr(
        [
            html.Td(dcc.Link(name, href=href, className="cover"), className="group-name"),
            html.Td(target(verdict), className="num dim wide"),
            html.Td(reached(verdict), className="num"),
            html.Td(
                html.Span(
                    [bar(left), html.Span(percent(left, 0), className="num")], className="left"
                )
            ),
            html.Td(burn(_pace(verdict)), className="num bad" if burning else "num"),
            html.Td(_spent(verdict), className="num"),
            html.Td(_counted(verdict), className="num dim wide"),
            html.Td(badge(WORDS[verdict.state], TONES[verdict.state])),
            html.Td(" · ".join(filter(None, reversed(notes))), className="dim wide notes"),
        ],
        className="chosen" if is_chosen else "",
        **(aria(current="true") if is_chosen else {}),
    )


def _spent(verdict: Verdict) -> str:
    if verdict.cost is not None:
        return dollars(verdict.cost.whole.spent_usd)
    return amount(verdict, verdict.bad) if verdict.total else UNKNOWN


def _counted(verdict: Verdict) -> str:
    return amount(verdict, _total(verdict))


def _total(verdict: Verdict) -> float:
    return verdict.total if verdict.cost is None else verdict.cost.whole.units


def _pager(rows: Rows, view: SloView, search: str) -> Any:
    is_usual = view.sort == "urgency"
    order = ", the most urgent first" if is_usual else ""
    return pager(
        rows, len(rows.verdicts), search, usual="Most urgent first", is_usual=is_usual, order=order
    )


def _pace(verdict: Verdict) -> float | None:
    tier = steady_tier(verdict)
    return tier.long_burn if tier else None


_KEYS: Mapping[str, Key] = {
    "group": lambda v: tuple(v.group.values()),
    "target": lambda v: v.objective if v.cost is None else v.cost.at_most_usd,
    "sli": lambda v: v.sli if v.cost is None else v.cost.whole.usd_per_unit,
    "budget": lambda v: v.budget_remaining,
    "burn": _pace,
    "bad": lambda v: (v.bad if v.total else None) if v.cost is None else v.cost.whole.spent_usd,
    "total": _total,
    "state": lambda v: str(v.state),
}
