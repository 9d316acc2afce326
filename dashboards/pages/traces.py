"""Traces: a list of requests, and one trace as a waterfall."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update

from base.errors import BadInput
from cost.read import Window
from dashboards.deps import Deps
from dashboards.facts import Cursor, RequestQuery, list_requests
from dashboards.grids import grid_options, number
from dashboards.memo import Memo
from dashboards.pages.waterfall import span_details, trace_view
from dashboards.parts import card, mark_loaded, problem
from dashboards.queries import read_names
from dashboards.state import ViewState, parse_search, with_search
from dashboards.traces import read_trace

BLOCK = 100


def layout() -> Any:
    """Lay out the list, the trace (hidden until one is chosen) and the span's drawer."""
    return html.Div(
        [
            html.Div(
                card(
                    "Requests",
                    html.Div(_grid(), className="grow"),
                    note=_filters(),
                    className="fill",
                    id="requests-card",
                ),
                id="trace-list",
            ),
            html.Div(id="trace-view"),
            dmc.Drawer(
                id="span-drawer",
                position="right",
                size="lg",
                title="Span",
                overlayProps={"backgroundOpacity": 0.25},
                children=html.Div(id="span-details"),
            ),
            dcc.Store(id="cursors", data={}),
            html.Div(id="purged", hidden=True),
        ],
        className="stack",
        id="traces",
    )


def register(app: Dash, deps: Deps, memo: Memo[Any]) -> None:
    """Serve blocks of requests, the chosen trace and the chosen span."""
    _bind_address(app)

    @app.callback(
        Output("requests", "getRowsResponse"),
        Output("cursors", "data"),
        Input("requests", "getRowsRequest"),
        State("cursors", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def block(
        request: dict[str, Any] | None, cursors: dict[str, Any], search: str | None
    ) -> tuple[Any, Any]:
        if request is None:
            return no_update, no_update
        state, now = parse_search(search), deps.clock.now()
        start = request["startRow"]
        # Paging must not shift under the reader: every block is of the first block's window.
        first = start == 0
        window = state.window(now) if first else _kept(cursors, state.window(now))
        cursor = None if first else cursors.get(str(start))
        if not first and cursor is None:
            return {"rowData": [], "rowCount": start}, no_update
        query = RequestQuery(
            start=window.start,
            end=window.end,
            filters=state.filters(),
            cursor=Cursor.parse(cursor) if cursor else None,
            limit=BLOCK,
        )
        page = list_requests(deps.engine, deps.prices, query)
        end = start + len(page.requests)
        kept = {} if first else cursors
        kept |= {"window": [window.start.timestamp(), window.end.timestamp()]}
        if page.next_cursor:
            kept[str(end)] = page.next_cursor
        mark_loaded(deps.clock)
        last = None if page.next_cursor else end
        return {"rowData": page.requests, "rowCount": last}, kept

    @app.callback(
        Output("filter-route", "data"),
        Output("filter-model", "data"),
        Output("filter-outcome", "value"),
        Output("filter-route", "value"),
        Output("filter-model", "value"),
        Input("url", "search"),
    )
    def menus(search: str | None) -> tuple[Any, ...]:
        state = parse_search(search)
        names = read_names(deps.engine, memo, state, deps.clock.now())
        return (
            _with(names["route"], state.route),
            _with(names["model"], state.model),
            state.outcome or "all",
            state.route,
            state.model,
        )

    @app.callback(
        Output("trace-list", "hidden"),
        Output("trace-view", "children"),
        Output("span-drawer", "opened"),
        Output("span-drawer", "title"),
        Output("span-details", "children"),
        Input("url", "search"),
    )
    def show(search: str | None) -> tuple[Any, ...]:
        state = parse_search(search)
        if state.trace is None:
            return False, None, False, "Span", None
        view, details, title = _trace(deps, state, search)
        mark_loaded(deps.clock)
        return True, view, details is not None, title, details


def _bind_address(app: Dash) -> None:
    in_browser: Any = app.clientside_callback
    address = Output("url", "search", allow_duplicate=True)
    in_browser(
        ClientsideFunction("tokenweir", "filter"),
        address,
        Input("filter-outcome", "value"),
        Input("filter-route", "value"),
        Input("filter-model", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    in_browser(
        ClientsideFunction("tokenweir", "find"),
        address,
        Input("find-trace", "n_submit"),
        State("find-trace", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    in_browser(
        ClientsideFunction("tokenweir", "openRow"),
        address,
        Input("requests", "cellClicked"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    in_browser(
        ClientsideFunction("tokenweir", "closeSpan"),
        address,
        Input("span-drawer", "opened"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    in_browser(
        ClientsideFunction("tokenweir", "purge"),
        Output("purged", "children"),
        Input("url", "search"),
    )
    in_browser(
        ClientsideFunction("tokenweir", "refresh"),
        Output("purged", "title"),
        Input("refresh-requests", "n_clicks"),
        prevent_initial_call=True,
    )


def _trace(deps: Deps, state: ViewState, search: str | None) -> tuple[Any, Any, str]:
    back = with_search(search, trace=None, span=None) or "?"
    try:
        found = read_trace(deps.engine, deps.prices, state.trace or "")
    except BadInput as error:
        return _missing("This is not a trace id", str(error), back), None, "Span"
    if found is None:
        why = "It was never sent here, is not ingested yet, or is past its retention."
        return _missing(f"No span of {state.trace} is stored", why, back), None, "Span"
    span = next((s for s in found.spans if s.id == state.span), None)
    view = trace_view(found, search, state.span, back)
    return view, span_details(span) if span else None, span.name if span else "Span"


def _missing(title: str, why: str, back: str) -> Any:
    return html.Div(
        [dcc.Link("← Requests", href=back, className="back"), problem(title, why, "calm")],
        className="stack",
    )


def _kept(cursors: dict[str, Any], default: Window) -> Window:
    if "window" not in cursors:
        return default
    start, end = (datetime.fromtimestamp(t, UTC) for t in cursors["window"])
    return Window(start, end)


def _with(names: list[str], chosen: str | None) -> list[str]:
    return [*names, chosen] if chosen and chosen not in names else names


def _filters() -> Any:
    return html.Div(
        [
            dmc.SegmentedControl(
                id="filter-outcome", data=["all", "good", "bad", "excluded"], value="all", size="xs"
            ),
            dmc.Select(id="filter-route", placeholder="Any route", clearable=True, size="xs"),
            dmc.Select(id="filter-model", placeholder="Any model", clearable=True, size="xs"),
            dmc.TextInput(id="find-trace", placeholder="Trace id, then Enter", size="xs"),
            dmc.Button("Refresh", id="refresh-requests", size="xs", variant="default"),
        ],
        className="filters",
    )


def _grid() -> Any:
    return dag.AgGrid(
        id="requests",
        columnDefs=[
            {
                "field": "start",
                "headerName": "Started (UTC)",
                "cellRenderer": "Started",
                "width": 172,
                "minWidth": 165,
            },
            {
                "field": "outcome",
                "headerName": "Outcome",
                "cellRenderer": "Outcome",
                "width": 135,
                "minWidth": 120,
            },
            _text("tenant", "Tenant", 110),
            _text("route", "Route", 175),
            _text("model", "Model", 185),
            number("duration_ms", "Duration", "millis", 100),
            number("ttft_ms", "TTFT", "millis", 90),
            number("queue_ms", "Queue", "millis", 90),
            number("prompt_tokens", "Tokens in", "count", 95),
            number("completion_tokens", "out", "count", 80),
            number("cost_usd", "Cost", "dollars", 95),
            _text("replica", "Replica", 90),
            number("attempts", "Tries", "count", 70),
        ],
        defaultColDef={"sortable": False, "resizable": True},
        rowModelType="infinite",
        getRowId="params.data.trace_id + ':' + params.data.request_id",
        dashGridOptions=grid_options(
            cacheBlockSize=BLOCK,
            maxConcurrentDatasourceRequests=1,
            rowSelection=None,
        ),
        columnSize="sizeToFit",
        className="grid clickable",
        style={"height": "100%", "width": "100%"},
    )


def _text(field: str, title: str, width: int) -> dict[str, Any]:
    return {
        "field": field,
        "headerName": title,
        "width": width,
        "minWidth": width - 30,
        "valueFormatter": {"function": "text(params.value)"},
        "cellClassRules": {"dim": "params.value == null"},
    }
