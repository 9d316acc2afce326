"""The table of objectives, and one of them in detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import dcc, html

from base.durations import format_duration, parse_duration
from base.labels import fingerprint
from dashboards.budgets import BudgetPoint, Key, key_of
from dashboards.figures import Chart
from dashboards.parts import badge, bar, card, graph, nothing, sparkline
from dashboards.slo_state import slo_address
from dashboards.state import ViewState, with_search
from dashboards.verdict_words import (
    TONES,
    WORDS,
    amount,
    by_urgency,
    forecast_words,
    leading,
    reached,
    target,
    unit_of,
)
from dashboards.wording import UNKNOWN, burn, count, dollars, moment, percent, span
from slo.verdict import State, TierVerdict, Verdict
from slo.weight import REQUESTS

SHOWN = 8
_CALM = 0.9  # with more of its budget left, an objective needs no explanation
_MOST_WINDOWS = 4


def name_of(verdict: Verdict) -> str:
    """Name a verdict in the address bar: the SLO, and its group where it has one."""
    return f"{verdict.slo}~{fingerprint(verdict.group)[:8]}" if verdict.group else verdict.slo


def chosen(verdicts: Sequence[Verdict], state: ViewState) -> Verdict | None:
    """Find the verdict the address names, else the worst.

    A link in a notification names the SLO, and its group by the filters beside it.
    """
    ordered = by_urgency(verdicts)
    named = [v for v in ordered if state.slo == name_of(v)]
    same = [v for v in ordered if state.slo == v.slo]
    asked = state.filters()
    grouped = [v for v in same if all(v.group.get(k, a) == a for k, a in asked.items())]
    return next(iter((*named, *grouped, *same, *ordered)), None)


def table(
    verdicts: Sequence[Verdict],
    spent: Mapping[Key, Sequence[BudgetPoint]],
    state: ViewState,
    search: str | None,
) -> Any:
    """One row a group: objective, SLI, budget, burn by window, state."""
    if not verdicts:
        return nothing("No objectives yet. Start with --slo FILE, or see docs/slo.")
    picked = chosen(verdicts, state)
    ordered = by_urgency(verdicts)
    shown = ordered if state.is_whole else ordered[:SHOWN]
    rows = [_row(v, spent.get(key_of(v), ()), v is picked, search) for v in shown]
    head = html.Div(
        [
            html.Span("Objective"),
            html.Span("Target", className="num"),
            html.Span("SLI", className="num"),
            html.Span("Budget left"),
            html.Span("Burn rate, by window"),
            html.Span("State"),
        ],
        className="slo-row slo-head",
    )
    more = None
    if len(ordered) > SHOWN:
        text = "Show fewer" if state.is_whole else f"Show all {len(ordered)}"
        href = with_search(search, all=None if state.is_whole else "1") or "?"
        more = dcc.Link(text, href=href, className="more")
    return html.Div([head, *rows, more], className="slos")


def detail(verdict: Verdict, figure: Chart, search: str | None = None) -> Any:
    """Show how one budget was spent, which tiers burn, and on what."""
    facts = [
        *_measured(verdict),
        ("Coverage", percent(verdict.coverage, 1)),
        ("Data until", moment(verdict.watermark, verdict.at)),
        ("Budget lasts", _lasts(verdict)),
    ]
    side = html.Div(
        [
            html.Dl([part for k, v in facts for part in (html.Dt(k), html.Dd(v))]),
            _tiers(verdict.tiers),
            _reasons(verdict),
        ],
        className="slo-side",
    )
    chart = graph("overview-burndown", figure)
    return card(
        "Error budget" if verdict.cost is None else "Budget",
        html.Div([html.Div(chart, className="grow"), side], className="slo-detail"),
        note=[
            dcc.Link(html.B(verdict.slo), href=slo_address(verdict.slo, verdict.group, search)),
            *_chips(verdict),
            _objective(verdict),
            _key(),
        ],
    )


def _measured(verdict: Verdict) -> list[tuple[str, str]]:
    if verdict.cost is None:
        return [
            ("SLI", f"{percent(verdict.sli, 3)} of {_much(verdict, verdict.total)}"),
            ("Excluded", _much(verdict, verdict.excluded)),
        ]
    whole, unpriced = verdict.cost.whole, verdict.cost.unpriced_requests
    return [
        ("Spent", f"{dollars(whole.spent_usd)} of {dollars(whole.allowed_usd)}"),
        ("A unit", f"{dollars(whole.usd_per_unit)} × {count(whole.units)}"),
        *([("No price", f"{count(unpriced)} requests")] if unpriced else []),
    ]


def _lasts(verdict: Verdict) -> str:
    left = verdict.budget_remaining
    if left is None:
        return UNKNOWN
    if left <= 0:
        return "is spent"
    return span(verdict.expires_in) if verdict.expires_in else "at this rate, for good"


def _row(
    verdict: Verdict,
    points: Sequence[BudgetPoint],
    is_chosen: bool,
    search: str | None,
) -> Any:
    left = verdict.budget_remaining
    colour = "bad" if left is not None and left < 0.1 else "accent"
    frozen = " frozen" if verdict.state in {State.STALE, State.ABSENT} else ""
    is_spent = left is not None and left < _CALM
    words = (forecast_words(verdict), leading(verdict)) if is_spent or verdict.causes else ()
    said = " · ".join(filter(None, words))
    who = " ".join([verdict.slo, *verdict.group.values()])
    row = dcc.Link(
        [
            html.Span([html.B(verdict.slo), *_chips(verdict)], className="slo-name"),
            html.Span(target(verdict), className="num dim"),
            html.Span(reached(verdict), className="num"),
            html.Span(
                [
                    bar(left),
                    html.Span(percent(left, 0), className="num budget-left"),
                    sparkline([p.remaining for p in points], colour),
                ],
                className="budget",
            ),
            html.Span([_burn(verdict, w) for w in windows_of(verdict)], className="burns"),
            html.Span(badge(WORDS[verdict.state], TONES[verdict.state])),
            html.Span(said, className="slo-foreseen") if said else None,
        ],
        href=with_search(search, slo=name_of(verdict)) or "?",
        className="slo-row" + (" chosen" if is_chosen else "") + frozen,
    )
    page = dcc.Link(
        "→",
        href=slo_address(verdict.slo, verdict.group, search),
        className="slo-open",
        title=f"All about {who}",
    )
    return html.Div([row, page], className="slo-line")


def windows_of(verdict: Verdict) -> list[str]:
    """Pick the burn windows to show: the tiers' long ones, which decide, and a short one."""
    longs = sorted({tier.long for tier in verdict.tiers})
    named = [format_duration(length) for length in longs]
    others = [w for w in verdict.burn if w not in named]
    wanted = [*named, *others][:_MOST_WINDOWS]
    return [w for w in sorted(wanted, key=parse_duration) if w in verdict.burn]


def _burn(verdict: Verdict, window: str) -> Any:
    value = verdict.burn.get(window)
    tone = "" if value is None or value < 1 else " warn"
    for tier in verdict.tiers:
        spans = {format_duration(tier.long), format_duration(tier.short)}
        if tier.burning and window in spans:
            tone = " bad"
    return html.Span([html.Small(window), burn(value)], className="burn" + tone)


def _chips(verdict: Verdict) -> list[Any]:
    return [html.Span(v or "unknown", className="chip", title=k) for k, v in verdict.group.items()]


def _key() -> Any:
    return html.Span("budget left; dotted: even spend", className="dim")


def _objective(verdict: Verdict) -> Any:
    text = f"{target(verdict)} over {format_duration(verdict.window)}"
    return html.Span(text, className="dim")


def _tiers(tiers: Sequence[TierVerdict]) -> Any:
    rows = [
        html.Tr(
            [
                html.Td([tier.name, html.Span(f" {tier.severity}", className="dim")]),
                html.Td(burn(tier.factor), className="num dim"),
                html.Td(
                    f"{burn(tier.long_burn)} / {burn(tier.short_burn)}",
                    className="num" + (" bad" if tier.burning else ""),
                    title=f"{format_duration(tier.long)} / {format_duration(tier.short)}",
                ),
            ]
        )
        for tier in tiers
    ]
    head = html.Tr(
        [html.Th("Tier"), html.Th("fires at", className="num"), html.Th("now", className="num")]
    )
    return html.Table([html.Thead(head), html.Tbody(rows)], className="small")


def _much(verdict: Verdict, number: int) -> str:
    """Write a count, with its unit where that is not requests."""
    if verdict.unit == REQUESTS:
        return count(number)
    return f"{amount(verdict, number)} {unit_of(verdict)}"


def _reasons(verdict: Verdict) -> Any:
    worst = sorted(verdict.bad_reasons.items(), key=lambda item: -item[1])[:5]
    if not worst or verdict.bad == 0:
        return None
    return html.Table(
        html.Tbody(
            [
                html.Tr(
                    [
                        html.Td(reason.replace("_", " ")),
                        html.Td(
                            html.Span(
                                html.I(
                                    style={"width": f"{n / verdict.bad * 100:.0f}%"},
                                    className="bad",
                                ),
                                className="bar",
                            )
                        ),
                        html.Td(count(n), className="num"),
                    ]
                )
                for reason, n in worst
            ]
        ),
        className="small reasons",
    )
