"""Every SLO in one line: what it asks, how its most urgent group stands, who owns it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from dash import dcc, html

from dashboards.parts import badge, bar, nothing
from dashboards.slo_state import slo_address
from dashboards.verdict_words import (
    TONES,
    WORDS,
    by_urgency,
    forecast_words,
    leading,
)
from dashboards.wording import percent
from slo.model import Slo
from slo.sentence import sentence
from slo.spending.model import CostSlo
from slo.verdict import State, Verdict

_TROUBLE = (State.BURNING, State.EXHAUSTED, State.STALE)


def table(verdicts: Sequence[Verdict], slos: Sequence[Slo | CostSlo], search: str) -> Any:
    """List the SLOs, that of the most urgent group first."""
    documents = {slo.name: slo for slo in slos}
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in by_urgency(verdicts):
        groups[verdict.slo].append(verdict)
    if not groups and not documents:
        return nothing("No SLOs yet. Start with --slo FILE, or see docs/slo.")
    head = html.Tr(
        [
            html.Th("SLO", scope="col"),
            html.Th("Budget left, most urgent group", scope="col"),
            html.Th("State", scope="col"),
            html.Th("Groups", scope="col", className="num"),
            html.Th("Forecast, and what burns", scope="col", className="wide"),
        ]
    )
    rows = [_row(documents.get(name), found, search) for name, found in groups.items()]
    rows += [_unjudged(slo, search) for name, slo in documents.items() if name not in groups]
    return html.Div(
        html.Table([html.Thead(head), html.Tbody(rows)], className="ledger slo-list"),
        className="scroll",
    )


def _row(slo: Slo | CostSlo | None, verdicts: Sequence[Verdict], search: str) -> Any:
    worst = verdicts[0]
    left = worst.budget_remaining
    name = " · ".join(value or "unknown" for value in worst.group.values())
    notes = [forecast_words(worst), leading(worst) if worst.bad else ""]
    return html.Tr(
        [
            html.Td(
                [
                    dcc.Link(worst.slo, href=slo_address(worst.slo, {}, search), className="cover"),
                    *(html.Span(v, className="chip", title=k) for k, v in worst.labels.items()),
                    html.Div(sentence(slo) if slo else "", className="dim asked"),
                ],
                className="slo-cell",
            ),
            html.Td(
                [
                    html.Span(
                        [bar(left), html.Span(percent(left, 0), className="num")], className="left"
                    ),
                    html.Div(name, className="dim worst") if name else None,
                ]
            ),
            html.Td(badge(WORDS[worst.state], TONES[worst.state])),
            html.Td(_groups(verdicts), className="num"),
            html.Td(" · ".join(filter(None, notes)), className="dim wide notes"),
        ]
    )


def _unjudged(slo: Slo | CostSlo, search: str) -> Any:
    return html.Tr(
        [
            html.Td(
                [
                    dcc.Link(slo.name, href=slo_address(slo.name, {}, search), className="cover"),
                    html.Div(sentence(slo), className="dim asked"),
                ],
                className="slo-cell",
            ),
            html.Td("not judged yet", className="dim", colSpan=4),
        ]
    )


def _groups(verdicts: Sequence[Verdict]) -> list[Any]:
    states: Mapping[State, int] = Counter(v.state for v in verdicts)
    trouble = [f"{states[state]} {WORDS[state]}" for state in _TROUBLE if states.get(state)]
    if not verdicts[0].group:
        return []
    return [
        f"{len(verdicts):,}",
        html.Div(", ".join(trouble), className="dim") if trouble else None,
    ]
