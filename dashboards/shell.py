"""The frame around every page: header, navigation, time range, tenant, theme, freshness."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from dashboards.parts import aria
from dashboards.queries import read_names
from dashboards.reader import Reader
from dashboards.state import DEFAULT_RANGE, RANGES, followed, parse_search
from dashboards.theme import mantine_theme

PAGES = (
    ("/", "Overview"),
    ("/slo", "SLOs"),
    ("/cost", "Cost"),
    ("/traces", "Traces"),
    ("/ingest", "Ingest"),
)
REFRESH_MS = 5_000


def layout() -> Any:
    """Lay out the frame; `page` is filled by the router."""
    return dmc.MantineProvider(
        id="mantine",
        theme=mantine_theme(),
        defaultColorScheme="auto",
        children=[
            dcc.Location(id="url", refresh=False),
            dcc.Interval(id="tick", interval=REFRESH_MS),
            dcc.Interval(id="second", interval=1000),
            dcc.Store(id="loaded"),
            dmc.AppShell(
                [
                    dmc.AppShellHeader(_header()),
                    dmc.AppShellMain(
                        [
                            html.Div(
                                id="problem",
                                className="problem",
                                role="alert",
                                **aria(live="polite"),
                            ),
                            html.Main(id="page", className="page"),
                        ]
                    ),
                ],
                header={"height": {"base": 96, "md": 52}},
                padding=0,
            ),
        ],
    )


def _header() -> Any:
    return html.Div(
        [
            dcc.Link(
                [html.Span(className="logo"), html.Span("tokenweir", className="brand-name")],
                href="/",
                className="brand",
                title="tokenweir",
            ),
            html.Nav(
                [
                    dcc.Link(name, href=path, id=f"nav-{name.lower()}", className="nav-link")
                    for path, name in PAGES
                ],
                className="nav",
                **aria(label="Pages"),
            ),
            html.Div(className="spacer"),
            html.Div(
                [
                    dmc.Select(
                        id="tenant",
                        placeholder="All tenants",
                        clearable=True,
                        searchable=True,
                        size="xs",
                        w=150,
                        data=[],
                        persistence=False,
                        **aria(label="Tenant"),
                    ),
                    dmc.SegmentedControl(
                        id="range", data=list(RANGES), value=DEFAULT_RANGE, size="xs"
                    ),
                ],
                className="scope",
            ),
            html.Div(
                [html.Span(className="dot"), html.Span("…", id="fresh-text")],
                id="fresh",
                className="fresh",
                title="Pages refresh by themselves; all times are UTC",
            ),
            dmc.ColorSchemeToggle(
                lightIcon=html.Span(className="icon icon-moon"),
                darkIcon=html.Span(className="icon icon-sun"),
                id="theme-toggle",
                variant="subtle",
                color="gray",
                size="md",
                **aria(label="Light or dark"),
            ),
        ],
        className="header",
    )


def fill(path: str, search: str, read_at: datetime | None) -> dict[str, Any]:
    """Show an address in the frame, as `assets/shell.js` does; `read_at` None: nothing read yet."""
    state, kept = parse_search(search), followed(search)
    links = f"?{urlencode(kept)}" if kept else ""
    shown = {
        "range.value": "" if state.start or state.end else state.range,
        "tenant.value": state.tenant,
        "fresh-text.children": f"{read_at:%H:%M:%S}" if read_at else "loading",
        "fresh.className": "fresh live" if read_at else "fresh pending",
    }
    for page, name in PAGES:
        active = " active" if page == path else ""
        shown[f"nav-{name.lower()}.className"] = f"nav-link{active}"
        shown[f"nav-{name.lower()}.href"] = page + links
    return shown


def register(app: Dash, reader: Reader) -> None:
    """Bind the frame: the address bar is the state, the controls show it."""
    in_browser: Any = app.clientside_callback
    in_browser(
        ClientsideFunction("tokenweir", "bind"),
        Output("url", "search"),
        Output("range", "value"),
        Output("tenant", "value"),
        Input("url", "search"),
        Input("range", "value"),
        Input("tenant", "value"),
    )
    in_browser(
        ClientsideFunction("tokenweir", "navigate"),
        *[Output(f"nav-{name.lower()}", "className") for _, name in PAGES],
        *[Output(f"nav-{name.lower()}", "href") for _, name in PAGES],
        Input("url", "pathname"),
        Input("url", "search"),
    )
    in_browser(
        ClientsideFunction("tokenweir", "freshness"),
        Output("fresh-text", "children"),
        Output("fresh", "className"),
        Input("second", "n_intervals"),
        Input("loaded", "data"),
        State("url", "search"),
    )

    @app.callback(Output("tenant", "data"), Input("url", "search"))
    def tenants(search: str | None) -> list[str]:
        state = parse_search(search)
        names = read_names(reader, state)["tenant"]
        chosen = [state.tenant] if state.tenant and state.tenant not in names else []
        return [*names, *chosen]
