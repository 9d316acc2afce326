"""What did not get in as it was sent: refused requests, dead letters, names without a meaning."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dash import html

from collector.dead_letter import DeadLetter
from dashboards.intake import ReceiverState, Refusals
from dashboards.intake_words import advice_for, ago, reason_words, size
from dashboards.parts import badge, nothing
from dashboards.wording import count, moment
from store.ingest_history import UnknownName

SHOWN = 20
_SENDERS_NAMED = 3
_HERE = "http://127.0.0.1:4318"


def refusals(found: Sequence[Refusals], receiver: ReceiverState | None, now: datetime) -> Any:
    """List why requests were refused, whether senders try again, and what to do about it."""
    if receiver is None:
        return nothing("Unknown: no receiver has reported.")
    if not found:
        since = moment(receiver.started, now)
        return nothing(f"No request was refused since the receiver started, {since}.")
    return html.Ul([_refusal(each, now) for each in found], className="events")


def _refusal(each: Refusals, now: datetime) -> Any:
    fate = (
        badge("sender tries again", "calm")
        if each.is_tried_again
        else badge("not tried again", "bad")
    )
    when = f"last {ago(each.last, now)}" if each.last else ""
    return html.Li(
        [
            html.Div(
                [
                    html.B(f"{count(each.requests)} {reason_words(each.reason)}"),
                    fate,
                    html.Span(when, className="event-when"),
                ],
                className="event-head",
            ),
            html.Div(advice_for(each.reason), className="event-why"),
        ],
        className="event",
    )


def dead_letters(
    letters: Sequence[DeadLetter] | None, receiver: ReceiverState | None, now: datetime
) -> Any:
    """List the newest requests that the store could not take, and how to send them again."""
    if letters is None:
        return nothing("Unknown: these pages do not see the data folder.")
    if not letters:
        return nothing("Nothing is set aside: the store could take every request.")
    to = (receiver.otlp_http if receiver else None) or _HERE
    folder = shlex.quote(str(letters[0].file.parent))
    head = _heads("Received", "Source", "Why", "Spans", "Size")
    rows = [
        html.Tr(
            [
                html.Td(moment(each.received, now), title=each.file.name, className="when"),
                html.Td([each.source, _of(each.tenant)]),
                html.Td(each.reason, className="reason-text"),
                html.Td(count(each.spans), className="num"),
                html.Td(size(each.size_bytes), className="num"),
            ]
        )
        for each in letters[:SHOWN]
    ]
    return html.Div(
        [
            html.P(
                [
                    (
                        "The store could not take these requests; the others go on. Once the"
                        " reason is gone, send them again (what is stored already stays as it"
                        " is), then delete them: "
                    ),
                    html.Code(f"tokenweir replay {folder} --to {shlex.quote(to)}"),
                ],
                className="card-words",
            ),
            _scroll(head, rows),
            _more(len(letters), "dead letters"),
        ]
    )


def unknown_names(names: Sequence[UnknownName], now: datetime) -> Any:
    """List attribute names that nothing here reads, and what that means."""
    if not names:
        return nothing("Every gen_ai.* and llm.* attribute that was sent has a meaning here.")
    head = _heads("Attribute", "Sources", "Spans", "Last")
    rows = [
        html.Tr(
            [
                html.Td(html.Code(each.name), className="reason-text"),
                html.Td(_named(each.senders)),
                html.Td(count(each.spans), className="num"),
                html.Td(_day(each, now), className="num"),
            ]
        )
        for each in names[:SHOWN]
    ]
    return html.Div(
        [
            html.P(
                "These attributes are kept with their spans, but no SLO, cost or filter reads them."
                " If one of them should count, send it under a name of the vocabulary: see"
                " “Vocabulary” in docs/telemetry.md.",
                className="card-words",
            ),
            _scroll(head, rows),
            _more(len(names), "names", most=1000),
        ]
    )


def _heads(*titles: str) -> Any:
    numbers = {"Spans", "Size", "Last"}
    return html.Tr(
        [html.Th(t, scope="col", className="num" if t in numbers else "") for t in titles]
    )


def _scroll(head: Any, rows: Sequence[Any]) -> Any:
    table = html.Table([html.Thead(head), html.Tbody(list(rows))], className="ledger")
    return html.Div(table, className="scroll")


def _more(every: int, what: str, most: int | None = None) -> Any:
    if every <= SHOWN:
        return None
    least = "at least " if every == most else ""
    said = f"{SHOWN} of {least}{every:,} {what}; {every - SHOWN:,} are not shown"
    return html.Div(html.Span(said, className="dim"), className="pager")


def _named(senders: Sequence[str]) -> str:
    more = f" and {len(senders) - _SENDERS_NAMED} more" if len(senders) > _SENDERS_NAMED else ""
    return ", ".join(senders[:_SENDERS_NAMED]) + more


def _of(tenant: str) -> Any:
    return html.Span(tenant, className="chip", title="tenant") if tenant else None


def _day(each: UnknownName, now: datetime) -> str:
    return "today" if each.last >= now.date() else f"{each.last:%d %b}"
