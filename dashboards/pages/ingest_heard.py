"""Who is heard: layers with their newest event, and the instances that fell silent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from dash import html

from dashboards.intake_words import SILENT, ago
from dashboards.parts import badge, nothing
from dashboards.queries import Heartbeat
from store.sources import SourceState

SHOWN = 10
_MISSED = timedelta(hours=1)


def heard(sources: Sequence[SourceState], beats: Sequence[Heartbeat], now: datetime) -> Any:
    """Sum up by layer, then name who fell silent, the latest first."""
    if not sources:
        return nothing("No event of the last seven days. Older ones are shown by the time range.")
    return html.Div([_layers(sources, now), _silent(sources, beats, now)])


def fell_silent(
    sources: Sequence[SourceState], beats: Sequence[Heartbeat], now: datetime
) -> list[SourceState]:
    """Pick those to worry about: they say every few seconds that they are alive, and do not now.

    One that is gone for an hour was taken away.
    """
    beating = {(beat.role, beat.name) for beat in beats}
    return [
        each
        for each in sources
        if (each.layer, each.instance or each.service) in beating
        and SILENT < now - each.last < _MISSED
    ]


def _layers(sources: Sequence[SourceState], now: datetime) -> Any:
    layers: dict[str, list[SourceState]] = {}
    for each in sources:
        layers.setdefault(each.layer, []).append(each)
    newest = {layer: max(each.last for each in same) for layer, same in layers.items()}
    rows = [
        html.Tr(
            [
                html.Td(layer),
                html.Td(
                    f"{sum(now - each.last <= SILENT for each in layers[layer]):,}"
                    f" of {len(layers[layer]):,}",
                    className="num",
                ),
                html.Td(
                    ago(newest[layer], now),
                    className="num warn" if now - newest[layer] > SILENT else "num",
                ),
            ]
        )
        for layer in sorted(layers, key=lambda layer: newest[layer])
    ]
    head = html.Tr(
        [
            html.Th("Layer", scope="col"),
            html.Th("Heard now", scope="col", className="num"),
            html.Th("Newest event", scope="col", className="num"),
        ]
    )
    return html.Table([html.Thead(head), html.Tbody(rows)], className="ledger")


def _silent(sources: Sequence[SourceState], beats: Sequence[Heartbeat], now: datetime) -> Any:
    silent = [each for each in sources if now - each.last > SILENT]
    if not silent:
        return html.P("Nobody fell silent.", className="card-words good")
    missed = {id(each) for each in fell_silent(sources, beats, now)}
    silent.sort(key=lambda each: (id(each) not in missed, now - each.last))
    hidden = len(silent) - SHOWN
    return html.Div(
        [
            html.P(
                "Silent for two minutes or more. “Missed” beats every few seconds and was heard"
                " within the hour; others may be idle or taken away.",
                className="card-words dim",
            ),
            html.Ul(
                [_source(each, now, is_missed=id(each) in missed) for each in silent[:SHOWN]],
                className="events",
            ),
            html.Div(
                html.Span(f"{hidden:,} more are not shown", className="dim"), className="pager"
            )
            if hidden > 0
            else None,
        ]
    )


def _source(each: SourceState, now: datetime, *, is_missed: bool) -> Any:
    return html.Li(
        html.Div(
            [
                badge("missed", "warn") if is_missed else None,
                html.B(each.instance or each.service or "unnamed"),
                html.Span(f"{each.layer} {each.service if each.instance else ''}", className="dim"),
                html.Span(ago(each.last, now), className="event-when"),
            ],
            className="event-head",
        ),
        className="event",
    )
