"""Traces: a list of requests, and one trace as a waterfall."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update

from base.errors import BadInput
from cost.read import Window
from dashboards.deps import Deps
from dashboards.facts import Cursor, Page, RequestQuery, list_requests
from dashboards.grids import grid_options, number
from dashboards.pages.waterfall import span_details, trace_view
from dashboards.parts import card, mark_loaded, problem
from dashboards.queries import read_names
from dashboards.reader import SHARED, Reader
from dashboards.refresh import outputs
from dashboards.state import ViewState, parse_search, with_search
from dashboards.traces import read_trace

BLOCK = 100
CHOSEN = (
    "trace-list.hidden",
    "trace-view.children",
    "span-drawer.opened",
    "span-drawer.title",
    "span-details.children",
)


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
                className="trace-list",
            ),
            html.Div(id="trace-view", className="trace-view"),
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


def register(app: Dash, reader: Reader) -> None:
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
        start = request["startRow"]
        if start == 0:
            kept: dict[str, Any] = {}
            window, page = _newest(reader, search or "")
        else:
            kept, cursor = cursors, cursors.get(str(start))
            if cursor is None:
                return {"rowData": [], "rowCount": start}, no_update
            # Paging must not shift under the reader: every block is of the first block's window.
            window = _kept(cursors)
            page = _block(reader, parse_search(search), window, Cursor.parse(cursor))
        end = start + len(page.requests)
        kept |= {"window": [window.start.timestamp(), window.end.timestamp()]}
        if page.next_cursor:
            kept[str(end)] = page.next_cursor
        mark_loaded(reader.deps.clock)
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
        names = read_names(reader, state)
        return (
            _with(names["route"], state.route),
            _with(names["model"], state.model),
            state.outcome or "all",
            state.route,
            state.model,
        )

    @app.callback(
        *outputs(CHOSEN),
        Input("url", "search"),
    )
    def show(search: str | None) -> tuple[Any, ...]:
        parts = _chosen(reader, search or "")
        if parts["trace-list.hidden"]:
            mark_loaded(reader.deps.clock)
        return tuple(parts[name] for name in CHOSEN)


def fill(reader: Reader, search: str) -> Mapping[str, Any]:
    """Answer with what the page shows first: the newest requests, or the chosen trace."""
    state, parts = parse_search(search), dict(_chosen(reader, search))
    if state.trace is None:
        parts["requests.rowData"] = _newest(reader, search)[1].requests
    return parts | {
        "filter-outcome.value": state.outcome or "all",
        "filter-route.value": state.route,
        "filter-model.value": state.model,
    }


def _newest(reader: Reader, search: str) -> tuple[Window, Page]:
    def read() -> tuple[Window, Page]:
        state = parse_search(search)
        window = state.window(reader.deps.clock.now())
        return window, _block(reader, state, window, None)

    found: tuple[Window, Page] = reader.memo.get(("requests", search), SHARED, read)
    return found


def _block(reader: Reader, state: ViewState, window: Window, cursor: Cursor | None) -> Page:
    query = RequestQuery(window.start, window.end, state.filters(), cursor, BLOCK)
    return list_requests(reader.deps.engine, reader.deps.prices, query)


def _chosen(reader: Reader, search: str) -> Mapping[str, Any]:
    """Answer with the trace and the span that the address names, by `CHOSEN`."""

    def read() -> Mapping[str, Any]:
        state = parse_search(search)
        if state.trace is None:
            return dict(zip(CHOSEN, (False, None, False, "Span", None), strict=True))
        view, details, title = _trace(reader.deps, state, search)
        answers = (True, view, details is not None, title, details)
        return dict(zip(CHOSEN, answers, strict=True))

    found: Mapping[str, Any] = reader.memo.get(("trace", search), SHARED, read)
    return found


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


def _kept(cursors: Mapping[str, Any]) -> Window:
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
