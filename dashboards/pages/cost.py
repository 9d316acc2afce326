"""Cost: who used the GPUs, what stood idle, and what an accepted request costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import dash_ag_grid as dag
import dash_mantine_components as dmc
import pandas as pd
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from cost.ledger import Ledger, charge
from cost.read import (
    DIMENSIONS,
    Dimension,
    Window,
    read_bills,
    read_later,
    read_traffic,
    read_uses,
)
from cost.report import CostReport, CostTotals, report
from dashboards import figures
from dashboards.figures import Chart
from dashboards.grids import TABLE, formatted, grid_options, number
from dashboards.parts import card, graph, keys, mark_loaded, tile, waiting, waiting_tiles
from dashboards.reader import PATIENCE_S, SHARED, Reader
from dashboards.refresh import Seen, only_changed, outputs
from dashboards.spend import spend_frame, step_hours
from dashboards.state import parse_search
from dashboards.wording import count, dollars, percent

PARTS = (
    "cost-tiles.children",
    "cost-spend-box.children",
    "cost-legend.children",
    "cost-sum.children",
    "cost-rows.rowData",
    "cost-rows.columnDefs",
    "cost-by.value",
)
_LONGEST = timedelta(minutes=1)
_TITLES = {
    "tenant": "Tenant",
    "route": "Route",
    "model": "Model",
    "replica": "Replica",
    "feature": "Feature",
    "user_id": "User",
    "app_version": "Version",
    "priority": "Priority",
}


def layout() -> Any:
    """Lay out the page; the table's columns follow `by`."""
    return html.Div(
        [
            html.Div(waiting_tiles(), id="cost-tiles", className="tiles"),
            card(
                "Spend",
                html.Div(
                    [
                        html.Div(waiting(260), id="cost-spend-box"),
                        html.Div(id="cost-legend", className="legend spend-legend"),
                    ]
                ),
                id="spend",
                note=html.Span(id="cost-sum"),
            ),
            card(
                "Bill",
                html.Div(
                    dag.AgGrid(
                        id="cost-rows",
                        columnDefs=[],
                        rowData=[],
                        dashGridOptions=grid_options(domLayout="autoHeight", getRowId=None),
                        defaultColDef={"sortable": True, "resizable": True},
                        columnSize="responsiveSizeToFit",
                        **TABLE,
                    ),
                    className="bill-rows",
                ),
                note=dmc.ChipGroup(
                    [dmc.Chip(_TITLES[d], value=d, size="xs", variant="light") for d in DIMENSIONS],
                    id="cost-by",
                    multiple=True,
                    value=["tenant", "route"],
                ),
                id="bill",
            ),
            dcc.Store(id="cost-seen"),
        ],
        className="stack",
        id="cost",
    )


def register(app: Dash, reader: Reader) -> None:
    """Fill the page now, on every change of the address, and every few seconds."""
    in_browser: Any = app.clientside_callback
    in_browser(
        ClientsideFunction("tokenweir", "by"),
        Output("url", "search", allow_duplicate=True),
        Input("cost-by", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )

    @app.callback(
        *outputs(PARTS),
        Output("cost-seen", "data"),
        Input("url", "search"),
        Input("tick", "n_intervals"),
        State("cost-seen", "data"),
    )
    def refresh(search: str | None, _tick: int | None, seen: Seen | None) -> tuple[Any, ...]:
        parts = fill(reader, search or "")
        mark_loaded(reader.deps.clock)
        return only_changed(seen, parts)


def fill(reader: Reader, search: str) -> Mapping[str, Any]:
    """Answer with everything the page shows, by `PARTS`."""
    state = parse_search(search)
    wanted = state.window(reader.deps.clock.now())
    # A month of hours hardly moves in a minute.
    keep = min(max((wanted.end - wanted.start) / 5000, SHARED), _LONGEST)
    window, ledger = reader.memo.get(
        ("ledger", state.range, state.start, state.end, state.by),
        keep,
        lambda: (wanted, _read_ledger(reader, wanted, state.by)),
    )
    bill = report(ledger, state.by)
    frame = spend_frame(ledger, window, state.by)
    answers = (
        tiles(bill.totals),
        graph("cost-spend", chart(frame, window)),
        ["$ per hour", *keys(figures.spend_colours(frame))],
        reconciliation(bill.totals),
        rows(bill, state.tenant),
        columns(state.by),
        list(state.by),
    )
    return dict(zip(PARTS, answers, strict=True))


def _read_ledger(reader: Reader, window: Window, by: Sequence[Dimension]) -> Ledger:
    """Bill every replica-hour of the window and charge it to groups of `by`."""
    engine, book = reader.deps.engine, reader.deps.prices
    bills = reader.start(read_bills, engine, window, book)
    uses = reader.start(lambda: list(read_uses(engine, window, by)))
    traffic = reader.start(lambda: list(read_traffic(engine, window, by)))
    billed, rows = bills.result(PATIENCE_S)[0], traffic.result(PATIENCE_S)
    later = read_later(engine, window, book, billed, rows)
    return charge(billed, uses.result(PATIENCE_S), rows, book, later)


def tiles(totals: CostTotals) -> list[Any]:
    """Sum the bill up in six numbers."""
    used = totals.used_usd + totals.token_usd
    unpriced = totals.unpriced_requests
    priced_hours = totals.gpu_hours - totals.unpriced_gpu_hours
    return [
        tile("Total", dollars(totals.cost_usd), f"{count(totals.gpu_hours)} GPU-hours"),
        tile("Used by requests", dollars(used), _of(used, totals.cost_usd)),
        tile(
            "Idle",
            dollars(totals.idle_usd),
            f"{percent(_share(totals.idle_usd, totals.cost_usd))} · GPUs "
            f"{percent(_share(totals.busy_gpu_hours, priced_hours))} busy",
        ),
        tile("Overhead", dollars(totals.overhead_usd), _of(totals.overhead_usd, totals.cost_usd)),
        tile(
            "Per accepted request",
            dollars(_share(used, totals.good)),
            f"{dollars(totals.cost_per_good_usd)} with idle and overhead",
        ),
        tile(
            "Unpriced",
            f"{count(unpriced)} requests" if unpriced else "none",
            f"{count(totals.unpriced_gpu_hours)} GPU-hours without a price"
            if totals.unpriced_gpu_hours
            else "every GPU-hour has a price",
            "warn" if unpriced or totals.unpriced_gpu_hours else "",
        ),
    ]


def chart(frame: pd.DataFrame, window: Window) -> Chart:
    """Stack spend per group over time, idle on top."""
    if not len(frame.columns):
        return figures.empty("Spend", "Nothing with a price ran in this time range", 260)
    return figures.spend(frame, window, step_hours(window))


def reconciliation(totals: CostTotals) -> Any:
    """Write the sum out: what was charged and what was not is the bill."""
    parts = [f"used {dollars(totals.used_usd)}", f"idle {dollars(totals.idle_usd)}"]
    tail = []
    if totals.overhead_usd:
        tail.append(f"+ overhead {dollars(totals.overhead_usd)}")
    if totals.token_usd:
        tail.append(f"+ tokens {dollars(totals.token_usd)}")
    equal = abs(totals.difference_usd) < 1e-9
    inferred = totals.inferred_gpu_hours
    return html.Span(
        [
            html.Span(
                f"{' + '.join(parts)} = {count(totals.gpu_hours - totals.unpriced_gpu_hours)}"
                f" GPU-hours × price = {dollars(totals.gpu_bill_usd)}"
            ),
            html.Span(" ".join(tail), className="dim"),
            html.Span(
                "adds up" if equal else f"differs by {dollars(totals.difference_usd)}",
                className="badge badge-good" if equal else "badge badge-bad",
            ),
            html.Span(f"{count(inferred)} GPU-hours inferred", className="badge badge-frozen")
            if inferred
            else None,
        ],
        className="reconciliation",
    )


def rows(bill: CostReport, tenant: str | None) -> list[dict[str, Any]]:
    """Lay the bill's rows out for the table; a chosen tenant hides other tenants' rows."""
    total = bill.totals.cost_usd
    return [
        {
            **row.group,
            "kind": row.kind,
            "share": _share(row.cost_usd, total),
            "cost_usd": row.cost_usd,
            "hours": row.engine_hours if row.kind == "used" else row.gpu_hours,
            "requests": row.requests if row.kind == "used" else None,
            "good": row.good if row.kind == "used" else None,
            "prompt_tokens": row.prompt_tokens if row.kind == "used" else None,
            "cached_tokens": row.cached_tokens if row.kind == "used" else None,
            "completion_tokens": row.completion_tokens if row.kind == "used" else None,
            "cost_per_good_usd": row.cost_per_good_usd,
            "unpriced": row.unpriced_requests or None,
        }
        for row in bill.rows
        if row.kind != "used" or tenant is None or row.group.get("tenant", tenant) == tenant
    ]


def columns(by: tuple[str, ...]) -> list[dict[str, Any]]:
    """Name the columns; idle and overhead rows are named in the first."""
    groups = [
        {
            "field": name,
            "headerName": _TITLES[name],
            "flex": 1,
            "minWidth": 120,
            "valueGetter": {"function": f"groupName(params, '{name}', {str(i == 0).lower()})"},
            "cellClassRules": {"dim": "params.data.kind !== 'used'"},
        }
        for i, name in enumerate(by)
    ]
    return [
        *groups,
        {
            "field": "cost_usd",
            "headerName": "Cost",
            "cellRenderer": "Share",
            "width": 150,
            "minWidth": 110,
            "type": "rightAligned",
        },
        number("cost_per_good_usd", "$ / accepted", "dollars", 115),
        number("requests", "Requests", "count", 95),
        number("good", "Accepted", "count", 95),
        number("prompt_tokens", "Tokens in", "count", 95),
        number("cached_tokens", "of it cached", "count", 105),
        number("completion_tokens", "Tokens out", "count", 100),
        number("hours", "Engine / GPU h", "hours", 120),
        {**formatted("unpriced", "Unpriced", "count", 95), "cellClass": "warn num"},
    ]


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _of(part: float, whole: float) -> str:
    share = _share(part, whole)
    return f"{percent(share)} of the total" if share is not None else "nothing to share"
