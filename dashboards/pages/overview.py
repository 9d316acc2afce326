"""Overview: which budget burns, what fires, what was done, and the traffic behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash import State as Known

from cost.read import Window
from dashboards import budget_figure, figures
from dashboards.budgets import BudgetPoint, Key, key_of, read_burndown
from dashboards.control import AlertView, LeaseView, read_alerts, read_leases
from dashboards.deps import Deps
from dashboards.pages import slo_table
from dashboards.pages.events import firing, timeline
from dashboards.parts import card, graph, keys, mark_loaded, problem, tile, waiting, waiting_tiles
from dashboards.queries import Heartbeat, Traffic, read_heartbeats, read_newest, read_traffic
from dashboards.reader import PATIENCE_S, SHARED, Reader
from dashboards.refresh import Seen, only_changed, outputs
from dashboards.slo_reads import left_out, touches
from dashboards.state import ViewState, parse_search
from dashboards.wording import UNKNOWN, count, millis, moment, percent, rate, span
from slo.verdict import State, Verdict

PARTS = (
    "overview-notice.children",
    "overview-notice.hidden",
    "overview-tiles.children",
    "overview-slos.children",
    "overview-slo.children",
    "overview-firing.children",
    "overview-done.children",
    "overview-traffic-box.children",
    "overview-traffic-keys.children",
    "overview-ttft-box.children",
    "overview-ttft-keys.children",
)
_SILENT, _MISSED = timedelta(minutes=2), timedelta(hours=1)


def layout() -> Any:
    """Lay out the page; every part is filled by the first refresh."""
    return html.Div(
        [
            html.Div(id="overview-notice", hidden=True),
            html.Div(waiting_tiles(), id="overview-tiles", className="tiles"),
            html.Div(
                [
                    html.Div(
                        [
                            card(
                                "Objectives",
                                html.Div(waiting(256), id="overview-slos"),
                                id="objectives",
                            ),
                            html.Div(id="overview-slo"),
                        ],
                        className="stack",
                    ),
                    html.Div(
                        [
                            card(
                                "Firing now",
                                html.Div(waiting(90), id="overview-firing"),
                                id="firing",
                            ),
                            card(
                                "What was done",
                                html.Div(waiting(120), id="overview-done"),
                                id="done",
                            ),
                        ],
                        className="stack rail",
                    ),
                ],
                className="split",
            ),
            html.Div(
                [
                    card(
                        "Traffic",
                        html.Div(waiting(222), id="overview-traffic-box"),
                        note=html.Span(id="overview-traffic-keys", className="legend"),
                        id="traffic",
                    ),
                    card(
                        "Time to first token",
                        html.Div(waiting(222), id="overview-ttft-box"),
                        note=html.Span(id="overview-ttft-keys", className="legend"),
                        id="ttft",
                    ),
                ],
                className="halves",
            ),
            dcc.Store(id="overview-seen"),
        ],
        className="stack",
        id="overview",
    )


def register(app: Dash, reader: Reader) -> None:
    """Fill the page now, on every change of the address, and every few seconds."""

    @app.callback(
        *outputs(PARTS),
        Output("overview-seen", "data"),
        Input("url", "search"),
        Input("tick", "n_intervals"),
        Known("overview-seen", "data"),
    )
    def refresh(search: str | None, _tick: int | None, seen: Seen | None) -> tuple[Any, ...]:
        parts = fill(reader, search or "")
        mark_loaded(reader.deps.clock)
        return only_changed(seen, parts)


def fill(reader: Reader, search: str) -> Mapping[str, Any]:
    """Answer with everything the page shows, by `PARTS`."""
    parts: Mapping[str, Any] = reader.memo.get(
        ("overview", search), SHARED, lambda: _read(reader, search)
    )
    return parts


def _read(reader: Reader, search: str) -> Mapping[str, Any]:
    deps = reader.deps
    state, now = parse_search(search), deps.clock.now()
    window = state.window(now)
    verdicts = of_tenant(deps.verdicts(), state.tenant)
    reading = (
        reader.start(read_traffic, deps.engine, window, state.filters(), now),
        reader.start(read_newest, deps.engine, now),
        reader.start(read_heartbeats, deps.engine, now),
    )
    spent = read_burndown(reader, verdicts)
    alerts, leases = read_alerts(deps.db, window, now), read_leases(deps.db, window)
    traffic, newest, beats = (
        reading[0].result(PATIENCE_S),
        reading[1].result(PATIENCE_S),
        reading[2].result(PATIENCE_S),
    )
    through, latency = charts(traffic, window, [*alerts, *leases])
    missing = notice(newest, beats, now)
    answers = (
        missing,
        missing is None,
        tiles(traffic, verdicts, alerts, window),
        slo_table.table(verdicts, spent, state, search),
        detail(verdicts, spent, state, [*alerts, *leases], deps, search),
        firing(alerts, now),
        timeline(leases, now),
        graph("overview-traffic", through),
        ["requests", *keys(figures.TRAFFIC_COLOURS)],
        graph("overview-ttft", latency),
        keys(figures.LATENCY_COLOURS),
    )
    return dict(zip(PARTS, answers, strict=True))


def notice(newest: datetime | None, beats: Sequence[Heartbeat], now: datetime) -> Any:
    """Say what is missing: everything, everything since a moment, or some sources."""
    if newest is None:
        return problem(
            "No telemetry yet",
            "Send OTLP to the receiver's gRPC or HTTP port, or start `tokenweir demo`;"
            " GET /api/v1/ingest shows what arrives.",
            "calm",
        )
    if now - newest > _SILENT:
        return problem(
            f"Nothing was heard for {span(now - newest)}",
            f"Budgets, alerts and actions are frozen as of {moment(newest, now)}.",
            "warn",
        )
    # A source that is gone for an hour was taken away; one that is gone for minutes is missed.
    silent = [beat for beat in beats if _SILENT < now - beat.last < _MISSED]
    if not silent:
        return None
    names = ", ".join(f"{beat.role} {beat.name}" for beat in silent[:4])
    more = f" and {len(silent) - 4} more" if len(silent) > 4 else ""
    return problem(
        f"{len(silent)} of {len(beats)} sources fell silent",
        f"Numbers are complete only for the others: nothing from {names}{more}.",
        "warn",
    )


def of_tenant(verdicts: Sequence[Verdict], tenant: str | None) -> list[Verdict]:
    """Keep a tenant's verdicts, and those that are not split by tenant."""
    return [v for v in verdicts if tenant is None or v.group.get("tenant", tenant) == tenant]


def tiles(
    traffic: Traffic, verdicts: Sequence[Verdict], alerts: Sequence[AlertView], window: Window
) -> list[Any]:
    """Sum the window up in six numbers."""
    totals = traffic.totals
    seconds = (window.end - window.start).total_seconds()
    firing_now = [a for a in alerts if a.is_open]
    pages = sum(1 for a in firing_now if a.severity == "page")
    burning = sum(1 for v in verdicts if v.state in {State.BURNING, State.EXHAUSTED})
    frozen = sum(1 for v in verdicts if v.state is State.STALE)
    judged = [v for v in verdicts if v.budget_remaining is not None]
    return [
        tile(
            "Firing",
            str(len(firing_now)),
            f"{pages} page{'s' * (pages != 1)}, {len(firing_now) - pages} other",
            "bad" if pages else "warn" if firing_now else "good",
        ),
        tile(
            "Budgets in trouble",
            f"{burning} of {len(judged)}" if judged else UNKNOWN,
            f"{frozen} frozen: no fresh data" if frozen else "all judged on fresh data",
            "bad" if burning else "",
        ),
        tile(
            "Good requests",
            percent(totals.good_share, 2),
            f"{count(totals.bad)} bad, {count(totals.excluded)} excluded",
        ),
        tile("Requests", count(totals.requests), f"{rate(totals.requests / seconds)} on average"),
        tile(
            "TTFT p95",
            millis(totals.ttft_p95_ms),
            f"p50 {millis(totals.ttft_p50_ms)}, p99 {millis(totals.ttft_p99_ms)}",
        ),
        tile(
            "Tokens out",
            count(totals.completion_tokens),
            f"{count(totals.prompt_tokens)} in"
            + (f", {count(totals.unknown_usage)} requests unknown" if totals.unknown_usage else ""),
        ),
    ]


def detail(
    verdicts: Sequence[Verdict],
    spent: Mapping[Key, Sequence[BudgetPoint]],
    state: ViewState,
    events: Sequence[AlertView | LeaseView],
    deps: Deps,
    search: str,
) -> Any:
    """Show the chosen SLO; the worst one until somebody chooses."""
    chosen = slo_table.chosen(verdicts, state)
    if chosen is None:
        return None
    mine = [e for e in events if concerns(e, chosen)]
    points = spent.get(key_of(chosen), ())
    window = Window(chosen.at - chosen.window, chosen.at)
    slo = next((each for each in deps.slos() if each.name == chosen.slo), None)
    touching = [
        each
        for each in deps.exclusions()
        if slo is not None and each.applies_to(slo) and touches(each, chosen.group)
    ]
    figure = (
        budget_figure.burndown(points, chosen, mine, left_out(touching, window))
        if points
        else figures.empty(
            "Budget left",
            "No judged request in the budget window"
            if chosen.cost is None
            else "Nothing was spent in the budget window, or it is still being read",
            250,
        )
    )
    return slo_table.detail(chosen, figure, search)


def concerns(event: AlertView | LeaseView, verdict: Verdict) -> bool:
    """Tell whether an event belongs on an SLO's chart: alerts of the SLO, and every action."""
    if isinstance(event, LeaseView):
        return True
    return event.slo == verdict.slo and dict(event.group) == dict(verdict.group)


def charts(
    traffic: Traffic,
    window: Window,
    events: Sequence[AlertView | LeaseView],
) -> tuple[Any, Any]:
    """Draw what went through; a window in which nothing was heard says so."""
    if traffic.frame["good"].isna().all():
        quiet = "No source reported in this time range"
        return figures.empty("Requests", quiet), figures.empty("Time to first token", quiet)
    latency = (
        figures.latency(traffic.frame, window, events)
        if traffic.totals.ttft_p50_ms is not None
        else figures.empty(
            "Time to first token", "No request with a first token in this time range"
        )
    )
    return figures.traffic(traffic.frame, window, events), latency
