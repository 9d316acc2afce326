"""The head of the ingest page: how intake stands in words, what is lost, and six numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from dash import html

from dashboards.ingest_reads import IntakeFacts
from dashboards.intake import refusals_of
from dashboards.intake_words import Words, ago, reason_words, size, standing
from dashboards.pages.ingest_heard import fell_silent
from dashboards.parts import badge, tile
from dashboards.wording import UNKNOWN, count, moment, rate, span

_NAMED = 4
_TONE_TEXT = {"good": "", "bad": "bad", "warn": "warn", "calm": "dim"}


def head(facts: IntakeFacts) -> list[Any]:
    """Say whether telemetry arrives, what it waits for, and what of it is lost."""
    said = standing(
        facts.receiver, facts.lag, facts.pipeline, facts.log_bytes, refusals_of(facts.senders),
        facts.newest, facts.now,
    )  # fmt: skip
    return [
        html.Div([html.H1("Ingest"), badge(said[0].badge, said[0].tone)], className="slo-title"),
        *(part for words in said for part in _words(words)),
        html.P(losses(facts), className="slo-asked"),
        *_silent(facts),
    ]


def _silent(facts: IntakeFacts) -> list[Any]:
    """Name who is missed: what the others send is complete, what these do is not known."""
    silent = fell_silent(facts.sources, facts.beats, facts.now)
    if not silent:
        return []
    named = ", ".join(
        f"{each.layer} {each.instance or each.service} ({ago(each.last, facts.now)})"
        for each in silent[:_NAMED]
    )
    more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
    return [html.P(f"Fell silent: {named}{more}.", className="slo-asked warn")]


def _words(words: Words) -> list[Any]:
    stands = html.P(words.says, className=f"slo-stands {_TONE_TEXT[words.tone]}")
    return [stands, html.P(words.advice, className="dim")] if words.advice else [stands]


def losses(facts: IntakeFacts) -> str:
    """Answer in one sentence what was lost; what cannot be known is said to be unknown."""
    letters = _set_aside(facts)
    if facts.receiver is None:
        return f"What was refused is unknown. {letters}"
    gone = sum(r.requests for r in refusals_of(facts.senders) if not r.is_tried_again)
    invalid = sum(row.rejected or 0 for row in facts.senders)
    since = f"since the receiver started, {moment(facts.receiver.started, facts.now)}"
    parts = [
        f"{gone:,} requests refused for good" if gone else "",
        f"{invalid:,} invalid spans left out" if invalid else "",
    ]
    lost = " and ".join(filter(None, parts))
    return f"Lost {since}: {lost or 'nothing'}. {letters}"


def _set_aside(facts: IntakeFacts) -> str:
    if facts.letters is None:
        return "Whether anything was set aside is unknown."
    if not facts.letters:
        return "Nothing is set aside."
    return f"{len(facts.letters):,} requests are set aside and can be replayed."


def tiles(facts: IntakeFacts) -> list[Any]:
    """Sum intake up in six numbers: two of now, the others of the time range or since a start."""
    flow = facts.flow
    seen = sum(each.accepted for each in flow)
    twice, late = sum(e.duplicate for e in flow), sum(e.late for e in flow)
    return [
        tile("Spans now", rate(facts.spans_per_s), _now_note(facts)),
        tile(
            "Accepted",
            count(seen) if facts.first else UNKNOWN,
            f"{count(twice)} duplicates · {count(late)} late" if facts.first else "no span yet",
        ),
        _refused(facts),
        _log(facts),
        tile(
            "Dead letters",
            UNKNOWN if facts.letters is None else count(len(facts.letters)),
            "unknown" if facts.letters is None
            else f"{count(sum(letter.spans for letter in facts.letters))} spans, set aside"
            if facts.letters
            else "every request could be stored",
            "bad" if facts.letters else "",
        ),
        tile(
            "Unknown names",
            count(len(facts.names)),
            "attributes that nothing reads" if facts.names else "every name has a meaning",
            "warn" if facts.names else "",
        ),
    ]  # fmt: skip


def _now_note(facts: IntakeFacts) -> str:
    if facts.first is None:
        return "no span yet"
    if facts.spans_per_s is None:
        return "the store is behind"
    return "mean of the last minute"


def _refused(facts: IntakeFacts) -> Any:
    if facts.receiver is None:
        return tile("Refused", UNKNOWN, "no receiver has reported")
    refusals = refusals_of(facts.senders)
    total = sum(each.requests for each in refusals)
    since = f"since {moment(facts.receiver.started, facts.now)}"
    why = f"{since}, most {reason_words(refusals[0].reason)}" if refusals else f"requests {since}"
    return tile("Refused", f"{count(total)}", why, "warn" if total else "")


def _log(facts: IntakeFacts) -> Any:
    lag = facts.lag
    if lag is None:
        return tile("Log", UNKNOWN, "unknown")
    if lag.age is None:
        return tile("Log", "0 s", "nothing waits for the store")
    behind = lag.age > timedelta(seconds=10)
    return tile("Log", span(lag.age), f"{size(lag.bytes)} wait", "warn" if behind else "")


def note_on_flow(facts: IntakeFacts) -> Sequence[str]:
    """Say what the chart does not know."""
    said = []
    if facts.receiver is None:
        said.append("Refusals are unknown: no receiver has reported.")
    else:
        started = moment(facts.receiver.started, facts.now)
        said.append(
            f"Refusals have no history: the receiver counts them from its start ({started}) on."
        )
    if (
        facts.lag is not None
        and facts.lag.age is not None
        and facts.lag.age > timedelta(seconds=10)
    ):
        said.append("The last stretch is missing until the store has caught up.")
    return said
