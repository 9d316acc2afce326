"""What is on record about an SLO: its periods, exclusions, versions, and the document itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from dash import html

from dashboards.parts import badge, bar, nothing
from dashboards.recurrence import when
from dashboards.revisions import Difference, differences
from dashboards.verdict_words import amount, unit_of
from dashboards.wording import dollars, moment, percent, span
from slo.described import describe
from slo.exclusion import Exclusion, occurrences
from slo.model import Slo
from slo.spending.model import CostSlo
from slo.verdict import PeriodVerdict, Verdict
from slo.version_book import Version

_TONES = {"proposed": "warn", "approved": "good", "reverted": "calm"}
_SHOWN = 12
_AHEAD = timedelta(days=366)


def periods(verdict: Verdict) -> Any:
    """Show each calendar period: its zone, how much of it is over, what is left of its budget."""
    if not verdict.periods:
        return nothing("No calendar periods: the budget is of a rolling window only.")
    return html.Ul([_period(each, verdict) for each in verdict.periods], className="events")


def _period(each: PeriodVerdict, verdict: Verdict) -> Any:
    now = verdict.at
    start, end = (at.astimezone(ZoneInfo(each.zone)) for at in (each.start, each.end))
    over = (now - each.start) / (each.end - each.start)
    return html.Li(
        [
            html.Div(
                [
                    html.B(f"This {each.period}"),
                    html.Span(each.zone, className="chip"),
                    html.Span(percent(each.budget_remaining, 1), className="event-when"),
                ],
                className="event-head",
            ),
            bar(each.budget_remaining),
            html.Div(
                f"{start:%d %b %H:%M} to {end:%d %b %H:%M} local,"
                f" {percent(over, 0)} over, {span(each.end - now)} to go",
                className="event-why",
            ),
            html.Div(_so_far(each, verdict), className="event-why"),
        ],
        className="event",
    )


def _so_far(each: PeriodVerdict, verdict: Verdict) -> str:
    if each.cost is not None:
        return f"{dollars(each.cost.spent_usd)} of {dollars(each.cost.allowed_usd)} is spent"
    if not each.total:
        return "nothing was judged yet"
    bad, total, excluded = (amount(verdict, n) for n in (each.bad, each.total, each.excluded))
    counted = f"{bad} bad of {total} {unit_of(verdict)}, {excluded} excluded"
    return f"{counted}, SLI {percent(each.sli, 3)}"


def exclusions(found: Sequence[Exclusion], now: datetime, window: timedelta) -> Any:
    """List what was proposed not to count, what became of it, and who said so."""
    if not found:
        return nothing("Everything counts: no exclusion was ever proposed for this.")
    items = [_exclusion(each, now, window) for each in found[:_SHOWN]]
    return html.Div(
        [html.Ul(items, className="events"), _rest(len(found), "GET /api/v1/exclusions")]
    )


def _exclusion(each: Exclusion, now: datetime, window: timedelta) -> Any:
    is_over = each.state == "reverted"
    matched = ", ".join(f"{k} {v or 'unknown'}" for k, v in each.match.items())
    about = ", ".join(each.slos) if each.slos else "every SLO"
    return html.Li(
        [
            html.Div(
                [
                    badge(each.state, _TONES[each.state]),
                    html.Span(moment(each.created_at, now), className="event-when"),
                ],
                className="event-head",
            ),
            html.Div(
                html.S(each.reason) if is_over else html.B(each.reason), className="event-what"
            ),
            html.Div(when(each), className="event-why"),
            html.Div(_touched(each, now, window), className="event-why"),
            html.Div(f"for {about}{f'; {matched} only' if matched else ''}", className="event-why"),
            html.Div(_people(each, now), className="event-note"),
        ],
        className="event over" if is_over else "event",
    )


def _touched(each: Exclusion, now: datetime, window: timedelta) -> str:
    """Say how much of the budget window it takes, and when it comes next."""
    past = occurrences(each, now - window, now)
    taken = sum(((min(e, now) - max(s, now - window)) for s, e in past), timedelta(0))
    takes = "took" if each.state == "approved" else "would take"
    said = f"{takes} {span(taken)} of the budget window" if past else "not in the budget window"
    if each.state == "reverted":
        return "counts again, as if it had never been"
    ahead = next((s for s, _ in occurrences(each, now, now + _AHEAD) if s > now), None)
    return f"{said}; next {moment(ahead, now)} UTC" if ahead else said


def _people(each: Exclusion, now: datetime) -> str:
    said = f"proposed by {each.created_by}"
    if each.approved_at is not None:
        said += f", approved by {each.approved_by} {moment(each.approved_at, now)}"
    elif each.reverted_at is None:
        said += ", has no effect until somebody else approves it"
    if each.reverted_at is not None:
        said += f", taken back by {each.reverted_by} {moment(each.reverted_at, now)}"
    return said


def versions(found: Sequence[Version], now: datetime) -> Any:
    """List the versions, the newest first, each with what differs from the one before."""
    if not found:
        return nothing("No version was recorded yet.")
    pairs = [*pairwise(found), (found[-1], None)]
    items = [_version(new, old, now) for new, old in pairs[:_SHOWN]]
    rest = _rest(len(found), f"GET /api/v1/slos/{found[0].slo}/versions")
    return html.Div([html.Ol(items, className="events"), rest])


def _version(new: Version, old: Version | None, now: datetime) -> Any:
    if not new.said:
        body: Any = html.Div("taken away", className="event-what")
    elif old is None or not old.said:
        body = html.Div(f"written: {len(new.said)} fields", className="event-what")
    else:
        body = html.Dl(
            [part for each in differences(old.said, new.said) for part in _difference(each)],
            className="diff",
        )
    return html.Li(
        [
            html.Div(
                [
                    html.B(f"v{new.number}"),
                    html.Span(new.author),
                    html.Span(moment(new.at, now), className="event-when"),
                ],
                className="event-head",
            ),
            body,
        ],
        className="event",
    )


def _difference(each: Difference) -> list[Any]:
    tags = {"same": html.Span, "gone": html.Del, "new": html.Ins}
    return [
        html.Dt(each.path),
        html.Dd(html.Code([tags[piece.kind](piece.text) for piece in each.pieces])),
    ]


def definition(slo: Slo | CostSlo | None) -> Any:
    """Write the document out, field by field, as it is judged."""
    if slo is None:
        return nothing("The document is not among those that are judged now.")
    said = describe(slo)
    return html.Div(
        [
            html.Dl(
                [part for k, v in said.items() for part in (html.Dt(k), html.Dd(html.Code(v)))],
                className="document",
            ),
            html.P(slo.source, className="dim source") if slo.source else None,
        ]
    )


def _rest(total: int, where: str) -> Any:
    if total <= _SHOWN:
        return None
    return html.Div(f"{total - _SHOWN} older ones are in {where}", className="nothing")
