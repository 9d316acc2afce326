"""One trace on the page: the sums, the bars, and a span's details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from dashboards.parts import badge, card, nothing, tile
from dashboards.state import with_search
from dashboards.traces import Span, Totals, Trace
from dashboards.waterfall import Bar, Waterfall, lay_out
from dashboards.wording import UNKNOWN, count, dollars, millis


def trace_view(trace: Trace, search: str | None, chosen: str | None, back: str) -> Any:
    """Show a trace: totals, conflicts, and every span on one axis."""
    shape = lay_out(trace)
    return html.Div(
        [
            html.Div(
                [
                    dcc.Link("← Requests", href=back, className="back"),
                    html.Code(trace.trace_id, className="trace-id"),
                    dmc.CopyButton(
                        value=trace.trace_id,
                        children="Copy id",
                        copiedChildren="Copied",
                        size="compact-xs",
                        variant="subtle",
                    ),
                ],
                className="crumbs",
            ),
            html.Div(_tiles(trace, shape), className="tiles"),
            _conflicts(trace.totals),
            card(
                "Waterfall",
                _waterfall(trace, shape, search, chosen),
                note=_legend(),
                id="waterfall",
            ),
        ],
        className="stack",
    )


def span_details(span: Span) -> Any:
    """Show everything a span carries; unknown numbers are left out, nothing is hidden."""
    sums: dict[str, Any] = {
        "Layer": span.layer,
        "Service": " / ".join(part for part in (span.service, span.instance) if part),
        "Started": span.start.isoformat(timespec="milliseconds"),
        "Duration": millis(span.duration_ms),
        "Status": f"{span.status} {span.status_message}".strip(),
        "Cost, with all below": dollars(span.cost_usd),
        "Span id": span.id,
        "Parent": span.parent or "none",
    }
    tokens = {k.replace("_", " "): v for k, v in span.tokens.items() if v is not None}
    times = {k.replace("_ms", "").replace("_", " "): millis(v) for k, v in span.bands.items() if v}
    return html.Div(
        [
            _facts("", sums),
            _facts("Tokens", {name: f"{value:,}" for name, value in tokens.items()}),
            _facts("Phases", times),
            _facts("Attributes", span.attributes),
            *_events(span),
            _facts("Resource", span.resource),
        ],
        className="stack details",
    )


def _tiles(trace: Trace, shape: Waterfall) -> list[Any]:
    totals = trace.totals
    errors = sum(1 for span in trace.spans if span.status == "error")
    note = f"{errors} with errors" if errors else "no errors"
    if trace.missing_parents:
        note += f", {trace.missing_parents} without their parent"
    return [
        tile("Duration", millis(shape.total_ms), f"from {trace.spans[0].start:%d %b %H:%M:%S} UTC"),
        tile("Spans", count(len(trace.spans)), note, "bad" if errors else ""),
        tile("Requests", count(totals.requests), "each counted once"),
        tile("Tokens in", count(totals.prompt_tokens)),
        tile("Tokens out", count(totals.completion_tokens)),
        tile("Cost", dollars(totals.cost_usd), _basis(trace)),
        *_judged(trace),
    ]


def _judged(trace: Trace) -> list[Any]:
    """Show the lowest evaluation of the requests, where any was evaluated."""
    found = [r for r in trace.requests if r["eval_score"] is not None or r["eval_label"]]
    if not found:
        return []
    worst = min(found, key=lambda r: (r["eval_score"] is None, r["eval_score"] or 0))
    score, label = worst["eval_score"], worst["eval_label"] or ""
    return [
        tile("Evaluation", label if score is None else f"{score:g}", worst["eval_name"] or label)
    ]


def _basis(trace: Trace) -> str:
    bases = sorted({r["cost_basis"] for r in trace.requests if r["cost_basis"]})
    words = {"gpu": "share of GPU-hours", "tokens": "token prices"}
    return " and ".join(words[b] for b in bases) or "no price applies"


def _conflicts(totals: Totals) -> Any:
    if not totals.conflicts:
        return None
    rows = [html.Li(_conflict(c), className="conflict") for c in totals.conflicts]
    return card(
        f"Layers report different numbers ({len(rows)})",
        html.Ul(rows),
        id="conflicts",
        className="conflicts",
    )


def _conflict(conflict: Mapping[str, Any]) -> list[Any]:
    """Say what is counted, and who says otherwise."""
    name = str(conflict.get("field", "usage")).replace("_", " ")
    counted = f"{_whole(conflict.get('taken'))} from {_text(conflict.get('taken_from'))}"
    other = f"{_text(conflict.get('layer'))} says {_whole(conflict.get('says'))}"
    return [
        html.B(name),
        html.Span(f"counted: {counted}", className="chip"),
        html.Span(other, className="chip"),
        html.Span(f" in request {conflict['request_id']}", className="dim"),
    ]


def _waterfall(trace: Trace, shape: Waterfall, search: str | None, chosen: str | None) -> Any:
    axis = [
        html.Span(
            millis(tick) if tick else "0",
            style={"left": f"{tick / shape.total_ms * 100:.3f}%"},
            className="tick",
        )
        for tick in shape.ticks
    ]
    head = html.Div(
        [
            html.Span("Span"),
            html.Span(axis, className="axis"),
            html.Span("Tokens in → out", className="num"),
            html.Span("Cost", className="num"),
        ],
        className="span-row span-head",
    )
    rows = [_row(bar, search, bar.span.id == chosen) for bar in shape.bars]
    more = (
        nothing(f"{shape.hidden} more spans are in GET /api/v1/traces/{trace.trace_id}")
        if shape.hidden
        else None
    )
    return html.Div([head, *rows, more], className="waterfall")


def _row(bar: Bar, search: str | None, is_chosen: bool) -> Any:
    span = bar.span
    broken = " failed" if span.status == "error" else ""
    return dcc.Link(
        [
            html.Span(
                [
                    html.I(className=f"layer layer-{span.layer}", title=span.layer),
                    html.Span(span.name, className="span-name" + broken),
                    html.Span(_where(span), className="span-where"),
                ],
                className="span-label",
                style={"paddingLeft": f"{min(span.depth, 12) * 14}px"},
            ),
            html.Span(_bar(bar), className="lane"),
            html.Span(_tokens(span), className="num"),
            html.Span(dollars(span.cost_usd) if span.cost_usd is not None else "", className="num"),
        ],
        href=with_search(search, span=span.id),
        className="span-row" + (" chosen" if is_chosen else ""),
    )


def _bar(bar: Bar) -> list[Any]:
    span = bar.span
    inside: list[Any] = [
        html.I(
            className=f"band band-{band.name}",
            style={"left": f"{band.left:.3f}%", "width": f"{band.width:.3f}%"},
            title=f"{band.name} {millis(band.ms)}",
        )
        for band in bar.bands
    ]
    if bar.first_token is not None:
        inside.append(
            html.I(
                className="first-token",
                style={"left": f"{bar.first_token:.3f}%"},
                title=f"first token after {millis(span.bands['ttft_ms'])}",
            )
        )
    failed = " failed" if span.status == "error" else ""
    after = bar.left + bar.width
    # Beside the bar, or on it where it fills the row.
    over = ""
    if after < 85:
        side = {"left": f"calc({after:.3f}% + 8px)"}
    elif bar.left > 15:
        side = {"right": f"calc({100 - bar.left:.3f}% + 6px)"}
    else:
        side, over = {"right": "8px"}, " inside"
    return [
        html.Span(
            inside,
            className=f"span-bar layer-{span.layer}" + (" banded" if bar.bands else "") + failed,
            style={"left": f"{bar.left:.3f}%", "width": f"max({bar.width:.3f}%, 2px)"},
        ),
        html.Span(
            [
                millis(span.duration_ms),
                html.Span(" begins before its parent", className="warn") if bar.is_early else None,
            ],
            className=f"span-took{over}",
            style=side,
        ),
    ]


def _where(span: Span) -> str:
    return span.instance or span.service


def _tokens(span: Span) -> str:
    given, made = span.tokens["prompt_tokens"], span.tokens["completion_tokens"]
    if given is None and made is None:
        return ""
    return f"{count(given)} → {count(made)}"


def _legend() -> Any:
    bands = [
        html.Span([html.I(className=f"swatch band-{n}"), n], className="key")
        for n in ("queue", "prefill", "decode")
    ]
    mark = html.Span([html.I(className="swatch first-token-key"), "first token"], className="key")
    return html.Div([*bands, mark], className="legend")


def _facts(title: str, values: Mapping[str, Any]) -> Any:
    if not values:
        return None
    pairs = [
        part
        for name in sorted(values)
        if title
        for part in (html.Dt(name), html.Dd(_text(values[name])))
    ] or [part for k, v in values.items() for part in (html.Dt(k), html.Dd(_text(v)))]
    return html.Section([html.H3(title) if title else None, html.Dl(pairs)])


def _whole(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else _text(value)


def _text(value: Any) -> str:
    return UNKNOWN if value is None or value == "" else str(value)


def _events(span: Span) -> list[Any]:
    if not span.events:
        return []
    items = [
        html.Li(
            [
                badge(millis((e["time"] - span.start).total_seconds() * 1000), "calm"),
                html.B(str(e["name"])),
                _facts("", e["attributes"]),
            ]
        )
        for e in span.events
    ]
    return [html.Section([html.H3("Events"), html.Ul(items)])]
