"""How fast a budget burns in each window, and on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import dcc, html

from base.durations import format_duration, parse_duration
from dashboards.parts import aria, badge, nothing
from dashboards.shares import shares
from dashboards.state import with_search
from dashboards.verdict_words import amount, document_of, reason_words
from dashboards.wording import UNKNOWN, burn, count, moment, percent, span
from slo.expression_text import write
from slo.model import Slo
from slo.verdict import Causes, State, Surge, Suspect, TierVerdict, Verdict

_AT = 62.5  # where on every bar the threshold lies, in percent of its width
_MOST_REASONS = 8
_MORE = {"requests": "requests", "prompt_tokens": "prompt tokens"}


def tiers(verdict: Verdict, slo: Slo | None) -> Any:
    """Show each tier's burn against its factor: bars are scaled so that thresholds line up."""
    if not verdict.tiers:
        return nothing("This SLO has no tiers: it never alerts.")
    least = {t.name: t.min_bad for t in document_of(slo, verdict).tiers} if slo else {}
    head = html.Tr(
        [
            html.Th("Tier", scope="col"),
            html.Th(
                html.Span(
                    [html.I(style={"left": f"{_AT}%"}), "threshold"], className="bullet-head"
                ),
                scope="col",
            ),
            html.Th("Long", scope="col", className="num"),
            html.Th("Short", scope="col", className="num"),
            html.Th("Fires at", scope="col", className="num"),
            html.Th("Needs", scope="col", className="num wide"),
            html.Th("Now", scope="col"),
        ]
    )
    rows = [_tier(tier, verdict, least.get(tier.name)) for tier in verdict.tiers]
    return html.Div(
        [
            html.Div(
                html.Table(
                    [html.Thead(head), html.Tbody(rows)],
                    className="ledger",
                ),
                className="scroll",
            ),
            _windows(verdict),
        ]
    )


def _tier(tier: TierVerdict, verdict: Verdict, min_bad: int | None) -> Any:
    needs = "" if min_bad is None else f"{min_bad} bad, quiet {format_duration(_hold(tier))}"
    tone = "bad" if tier.severity == "page" else "warn"
    return html.Tr(
        [
            html.Td([html.B(tier.name), html.Span(f" {tier.severity}", className="dim")]),
            html.Td(_bullet(tier), className="bullet-cell"),
            html.Td(_measured(tier.long_burn, format_duration(tier.long)), className="num"),
            html.Td(_measured(tier.short_burn, format_duration(tier.short)), className="num"),
            html.Td(burn(tier.factor), className="num dim"),
            html.Td(
                needs, className="num dim wide", title="to fire; and how long until it is over"
            ),
            html.Td(badge(*_now(tier, verdict, tone))),
        ],
        className="burning" if tier.burning else "",
    )


def _hold(tier: TierVerdict) -> Any:
    return max(tier.hold, tier.short)


def _now(tier: TierVerdict, verdict: Verdict, tone: str) -> tuple[str, str]:
    if tier.burning:
        return "burning", tone
    if not tier.known or verdict.state in {State.STALE, State.ABSENT}:
        return "not known", "frozen"
    if tier.long_burn is None:
        return "no traffic", "calm"
    return "quiet", "good"


def _measured(value: float | None, window: str) -> list[Any]:
    return [html.Small(f"{window} "), burn(value)]


def _bullet(tier: TierVerdict) -> Any:
    """Draw long (thick) and short (thin) burn as shares of the factor; the bar's end cuts them."""
    inside: list[Any] = []
    for name, value in (("long", tier.long_burn), ("short", tier.short_burn)):
        if value is None:
            continue
        width = min(value / tier.factor * _AT, 100.0)
        over = " over" if value >= tier.factor else ""
        inside.append(html.I(className=name + over, style={"width": f"{width:.2f}%"}))
    inside.append(html.B(style={"left": f"{_AT}%"}))
    said = (
        f"{tier.name}: {format_duration(tier.long)} burns at {burn(tier.long_burn)},"
        f" {format_duration(tier.short)} at {burn(tier.short_burn)}, threshold {burn(tier.factor)}"
    ).replace(UNKNOWN, "an unknown rate")
    empty = "" if len(inside) > 1 else " unknown"
    return html.Div(inside, className=f"bullet{empty}", role="img", **aria(label=said))


def _windows(verdict: Verdict) -> Any:
    """List the burn of every window that is measured, the shortest first."""
    why = "not known" if verdict.state in {State.STALE, State.ABSENT} else "no traffic"
    cells = [
        html.Span(
            [html.Small(window), burn(value) if value is not None else html.Em(why)],
            className="burn" + (" warn" if value is not None and value >= 1 else ""),
        )
        for window, value in sorted(verdict.burn.items(), key=lambda item: parse_duration(item[0]))
    ]
    note = html.Span("1× spends the budget in exactly its window", className="dim")
    return html.Div([*cells, note], className="burn-strip") if cells else None


def reasons(verdict: Verdict, slo: Slo | None, search: str) -> list[Any]:
    """Show what the budget was spent on and, of a burning one, what it burns on now."""
    found = shares(verdict.bad_reasons, _MOST_REASONS)
    clauses = {} if slo is None else {each.name: write(each.expression) for each in slo.good}
    parts: list[Any] = []
    if verdict.causes is not None:
        parts.append(_causes(verdict.causes, verdict, clauses, search))
    if found:
        parts += [
            html.H3(f"In the last {format_duration(verdict.window)}"),
            _bars(
                [(each.name, each.part, each.text, amount(verdict, each.count)) for each in found],
                clauses,
            ),
        ]
    elif verdict.causes is None:
        said = "Nothing was bad in the budget window." if verdict.total else "Nothing was judged."
        if verdict.cost is not None:
            said = "Dollars are judged here, not failures: the Cost page says who spends them."
        parts.append(nothing(said))
    return parts


def _causes(causes: Causes, verdict: Verdict, clauses: Mapping[str, str], search: str) -> Any:
    since = (
        f"Since {moment(causes.since, verdict.at)} UTC, for {span(verdict.at - causes.since)}"
        if causes.since
        else "Now"
    )
    top = shares(dict(causes.reasons), _MOST_REASONS)
    suspects = [html.Li(_suspect(each)) for each in causes.suspects]
    surges = [html.Li(_surge(each)) for each in causes.surges]
    return html.Div(
        [
            html.H3(since),
            _bars([(each.name, each.part, each.text, "") for each in top], clauses),
            html.Ul(
                suspects or [html.Li("Nobody stands out: it is everywhere.", className="dim")],
                className="suspects",
            ),
            html.Ul(surges, className="suspects") if surges else None,
            _traces(causes.traces, search),
        ],
        className="causes",
    )


def _suspect(suspect: Suspect) -> list[Any]:
    return [
        html.Span(suspect.dimension.replace("_", " "), className="dim"),
        " ",
        html.B(suspect.value),
        f" has {percent(suspect.of_bad, 0)} of the bad, {percent(suspect.of_all, 0)} of all",
    ]


def _surge(surge: Surge) -> list[Any]:
    what = _MORE.get(surge.what, surge.what.replace("_", " "))
    return [
        html.Span(surge.dimension.replace("_", " "), className="dim"),
        " ",
        html.B(surge.value),
        f" sends {count(surge.per_minute)} {what}/min, before {count(surge.before_per_minute)}",
    ]


def _traces(traces: Sequence[str], search: str) -> Any:
    if not traces:
        return None
    kept = with_search(search, **dict.fromkeys(("name", "group", "span", "sort", "page", "find")))
    links = [
        dcc.Link(
            html.Code(f"…{trace[-8:]}"),
            href="/traces" + with_search(kept, trace=trace),
            title=trace,
        )
        for trace in traces
    ]
    return html.P([html.Span("Newest traces ", className="dim"), *_spaced(links)])


def _bars(rows: Sequence[tuple[str, float, str, str]], clauses: Mapping[str, str]) -> Any:
    """Write shares as rows: name, bar, percent, count; pointing at a clause says what it asks."""
    return html.Table(
        html.Tbody(
            [
                html.Tr(
                    [
                        html.Td(
                            html.Span(
                                reason_words(name),
                                title=clauses.get(name, name),
                            ),
                            className="reason",
                        ),
                        html.Td(
                            html.Span(
                                html.I(style={"width": f"{part * 100:.1f}%"}, className="bad"),
                                className="bar",
                            ),
                            className="reason-bar",
                        ),
                        html.Td(text, className="num"),
                        html.Td(counted, className="num dim") if counted else None,
                    ]
                )
                for name, part, text, counted in rows
            ]
        ),
        className="small shares",
    )


def _spaced(links: Sequence[Any]) -> list[Any]:
    out: list[Any] = []
    for link in links:
        out += [link, " "]
    return out[:-1]
