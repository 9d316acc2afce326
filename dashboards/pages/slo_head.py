"""The head of an SLO's page: what is asked, how it stands in words, and six numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from dash import dcc, html

from base.durations import format_duration
from dashboards.budgets import allowed_of
from dashboards.parts import badge, tile
from dashboards.slo_state import PATH
from dashboards.verdict_words import (
    TONES,
    WORDS,
    amount,
    document_of,
    fits,
    override_of,
    reached,
    state_words,
    steady_tier,
    target,
    unit_of,
)
from dashboards.wording import UNKNOWN, burn, count, moment, percent, span
from slo.model import Slo
from slo.sentence import in_words, sentence
from slo.spending.model import CostSlo
from slo.verdict import CostVerdict, State, Verdict

_DAYS = timedelta(days=3)
_OF_PEOPLE = ("team", "owner", "service")  # shown first


def head(slo: Slo | CostSlo | None, verdict: Verdict, back: str) -> list[Any]:
    """Name the SLO and the group, say what is asked and how it stands."""
    links = [_link(name, url) for name, url in verdict.annotations.items() if _is_url(url)]
    description = slo.description if slo else verdict.annotations.get("description", "")
    held = override_of(slo, verdict)
    asked = sentence(document_of(slo, verdict)) if slo else ""
    return [
        html.Div(
            [
                dcc.Link("SLOs", href=back or PATH, className="back"),
                html.H1(verdict.slo),
                *(
                    html.Span([html.Small(f"{name} "), value or "unknown"], className="chip big")
                    for name, value in verdict.group.items()
                ),
                badge(WORDS[verdict.state], TONES[verdict.state]),
                html.Span("override", className="chip", title=held) if held else None,
                html.Span(
                    [
                        *(_owner(k, verdict.labels[k]) for k in _ordered(verdict.labels)),
                        *links,
                    ],
                    className="slo-owners",
                ),
            ],
            className="slo-title",
        ),
        html.P(state_words(verdict), className=f"slo-stands {_TONE_TEXT[verdict.state]}"),
        html.P(asked, className="slo-asked") if asked else None,
        html.P(description, className="dim") if description else None,
        html.P(["Counts may lack something: ", verdict.problem], className="warn")
        if verdict.problem
        else None,
    ]


def tiles(verdict: Verdict) -> list[Any]:
    """Sum a budget up in six numbers."""
    left = verdict.budget_remaining
    return [
        tile("Budget left", percent(left), fits(verdict), _tone_of(left)),
        tile(
            "SLI" if verdict.cost is None else "A unit costs",
            percent(verdict.sli, 3) if verdict.cost is None else reached(verdict),
            f"target {target(verdict).replace('.00', '')} over {in_words(verdict.window)}",
        ),
        tile("Budget spent", *_when(verdict)),
        _pace(verdict),
        _bad(verdict) if verdict.cost is None else _units(verdict.cost),
        tile(
            "Heard",
            percent(verdict.coverage),
            f"until {moment(verdict.watermark, verdict.at)};"
            f" {amount(verdict, verdict.excluded)} excluded",
        ),
    ]


def _bad(verdict: Verdict) -> Any:
    allowed, row = math.floor(allowed_of(verdict, verdict.total)), verdict.bad_in_a_row
    return tile(
        f"Bad {unit_of(verdict)}",
        amount(verdict, verdict.bad) if verdict.total else UNKNOWN,
        f"of {amount(verdict, verdict.total)}; {amount(verdict, allowed)} allowed"
        + (f"; {row} in a row" if row > 1 else ""),
    )


def _units(cost: CostVerdict) -> Any:
    unpriced = cost.unpriced_requests
    note = f"{count(unpriced)} requests have no price" if unpriced else "every request has a price"
    return tile("Units", count(cost.whole.units), note, "warn" if unpriced else "")


def _when(verdict: Verdict) -> tuple[str, str]:
    left, forecast, now = verdict.budget_remaining, verdict.forecast, verdict.at
    if left is None:
        return UNKNOWN, "nothing was judged"
    if left <= 0:
        return "now", f"by {percent(-left, 0)} too much" if left < 0 else "to the last one"
    if forecast is None:
        if verdict.expires_in is not None:
            return f"in {span(verdict.expires_in)}", "at the present burn"
        return "not in sight", "less than a tenth is spent" if left > 0.9 else "at the present burn"
    within = format_duration(verdict.window)
    if forecast.at is None:
        first = forecast.earliest
        note = f"80 %: from {_soon(first, now)} on" if first else "in nine of ten cases"
        return f"not within {within}", note
    latest = _soon(forecast.latest, now) if forecast.latest else f"past {within}"
    return f"in {span(forecast.at - now)}", f"80 %: {_soon(forecast.earliest, now)} to {latest}"


def _soon(at: datetime | None, now: datetime) -> str:
    """Write an instant to come as exactly as it is foreseen: the day, or the minute."""
    if at is None:
        return UNKNOWN
    return f"{at.astimezone(UTC):%d %b}" if at - now > _DAYS else moment(at, now)


def _pace(verdict: Verdict) -> Any:
    """Show the burn of the first tier that burns, or of the steady one."""
    burning = [tier for tier in verdict.tiers if tier.burning]
    shown = burning[0] if burning else steady_tier(verdict)
    if shown is None:
        return tile("Burn rate", UNKNOWN, "no tiers")
    if shown.long_burn is None:
        why = "no traffic" if shown.known else "not known"
        return tile("Burn rate", UNKNOWN, f"{why} in {format_duration(shown.long)}")
    note = f"over {format_duration(shown.long)}; {shown.severity} at {burn(shown.factor)}"
    return tile("Burn rate", burn(shown.long_burn), note, "bad" if burning else "")


def _tone_of(left: float | None) -> str:
    if left is None:
        return ""
    return "bad" if left < 0.1 else "warn" if left < 0.3 else ""


def _ordered(labels: Mapping[str, str]) -> list[str]:
    first = [name for name in _OF_PEOPLE if name in labels]
    return [*first, *(name for name in labels if name not in first)]


def _owner(name: str, value: str) -> Any:
    return html.Span([html.Small(f"{name} "), value], className="chip")


def _link(name: str, url: str) -> Any:
    """Link to what an annotation names: runbook, runbook_url, dashboard."""
    words = name.removesuffix("_url").replace("_", " ")
    return html.A(
        f"{words} ↗", href=url, target="_blank", rel="noopener noreferrer", className="out"
    )


def _is_url(text: str) -> bool:
    """Accept web addresses only: a document is not to run scripts in a reader's browser."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.netloc)


_TONE_TEXT = {
    State.OK: "",
    State.BURNING: "bad",
    State.EXHAUSTED: "bad",
    State.NO_TRAFFIC: "dim",
    State.STALE: "warn",
    State.ABSENT: "dim",
}
