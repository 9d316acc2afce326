"""Ingest: whether telemetry arrives, from whom, and whether any of it is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html

from dashboards.finding import find_on_enter
from dashboards.ingest_figure import COLOURS, flow_chart, shown
from dashboards.ingest_reads import IntakeFacts, read_intake
from dashboards.ingest_state import parse_ingest
from dashboards.intake import refusals_of
from dashboards.pages import ingest_head, ingest_heard, ingest_losses, ingest_senders
from dashboards.parts import aria, card, graph, keys, mark_loaded, waiting, waiting_tiles
from dashboards.reader import SHARED, Reader
from dashboards.refresh import Seen, only_changed, outputs
from dashboards.state import parse_search

PARTS = (
    "ingest-head.children",
    "ingest-tiles.children",
    "ingest-flow-box.children",
    "ingest-flow-keys.children",
    "ingest-flow-words.children",
    "ingest-refused.children",
    "ingest-heard.children",
    "ingest-senders.children",
    "ingest-find.value",
    "ingest-names.children",
    "ingest-letters.children",
)


def layout() -> Any:
    """Lay out the page; every part is filled by the first refresh."""
    return html.Div(
        [
            html.Section(waiting(80), id="ingest-head", className="card slo-header"),
            html.Div(waiting_tiles(), id="ingest-tiles", className="tiles"),
            html.Div([_flow(), _heard()], className="split"),
            card(
                "Senders",
                html.Div(waiting(160), id="ingest-senders"),
                note=html.Div(
                    dmc.TextInput(
                        id="ingest-find",
                        placeholder="Find a source, then Enter",
                        size="xs",
                        **aria(label="Find a source or tenant"),
                    ),
                    className="filters",
                ),
            ),
            html.Div(
                [
                    card("Unknown attribute names", html.Div(waiting(90), id="ingest-names")),
                    card("Dead letters", html.Div(waiting(90), id="ingest-letters")),
                ],
                className="halves",
            ),
            dcc.Store(id="ingest-seen"),
        ],
        className="stack",
        id="ingest",
    )


def _flow() -> Any:
    return html.Div(
        [
            card(
                "Spans per second",
                html.Div(
                    [
                        html.Div(waiting(240), id="ingest-flow-box"),
                        html.Div(id="ingest-flow-words", className="card-words dim"),
                    ]
                ),
                note=html.Span(id="ingest-flow-keys", className="legend"),
            ),
            card(
                "Refused requests",
                html.Div(waiting(60), id="ingest-refused"),
                note=html.Span("since the receiver started", className="dim"),
            ),
        ],
        className="stack",
    )


def _heard() -> Any:
    return html.Div(
        card("Who is heard", html.Div(waiting(160), id="ingest-heard")), className="stack side"
    )


def register(app: Dash, reader: Reader) -> None:
    """Fill the page now, on every change of the address, and every few seconds."""
    find_on_enter(app, "ingest-find")

    @app.callback(
        *outputs(PARTS),
        Output("ingest-seen", "data"),
        Input("url", "search"),
        Input("tick", "n_intervals"),
        State("ingest-seen", "data"),
    )
    def refresh(search: str | None, _tick: int | None, seen: Seen | None) -> tuple[Any, ...]:
        parts = fill(reader, search or "")
        mark_loaded(reader.deps.clock)
        return only_changed(seen, parts)


def fill(reader: Reader, search: str) -> Mapping[str, Any]:
    """Answer with everything the page shows, by `PARTS`."""
    parts: Mapping[str, Any] = reader.memo.get(
        ("ingest", search), SHARED, lambda: show(read_intake(reader, parse_search(search)), search)
    )
    return parts


def show(facts: IntakeFacts, search: str) -> Mapping[str, Any]:
    """Write facts down, by `PARTS`."""
    view, now = parse_ingest(search), facts.now
    answers = (
        ingest_head.head(facts),
        ingest_head.tiles(facts),
        graph("ingest-flow", flow_chart(facts)),
        keys({name: COLOURS[name] for name in shown(facts)}),
        " ".join(ingest_head.note_on_flow(facts)),
        ingest_losses.refusals(refusals_of(facts.senders), facts.receiver, now),
        ingest_heard.heard(facts.sources, facts.beats, now),
        ingest_senders.table(facts.senders, view, search, now),
        view.find,
        ingest_losses.unknown_names(facts.names, now),
        ingest_losses.dead_letters(facts.letters, facts.receiver, now),
    )
    return dict(zip(PARTS, answers, strict=True))
