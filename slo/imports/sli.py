"""Indicators of others -> native ones: counters where they are plain, else queries over $window.

Counting a counter is exact; a query is asked once for each window. A rate times its window is a
count, so queries made of rates are turned into counts where that keeps their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

from base.durations import format_duration, parse_duration
from base.errors import BadInput
from slo.imports import promql
from slo.imports.outcome import NoteKind
from slo.imports.promql import WINDOW
from slo.slices import LENGTHS, make_slices, unread_method

Part = Literal["good", "bad"]
Slices = Literal["kept", "lost"] | None
"""A budget of time slices: kept, or lost, events being counted instead."""

_OTHER: dict[Part, Part] = {"good": "bad", "bad": "good"}
_MISSED = {"lt": ">=", "lte": ">", "gt": "<=", "gte": "<"}  # what a bad value is
STEP = "1m"
SHORTEST_RATE = "5m"
"""Of rates: over less than two scrapes they have no value; Sloth's and Pyrra's shortest too."""


@dataclass(frozen=True, slots=True)
class Sli:
    """`fields` stand under `prometheus:`, or beside `objective` for an SLI over request facts."""

    fields: Mapping[str, Any]
    group_by: tuple[str, ...] = ()
    over_facts: bool = False
    by_minute: bool = False  # one event a minute
    draft: bool = False
    slices: Slices = None
    sliced: Mapping[str, Any] | None = None  # a native document's `slices`
    notes: tuple[tuple[NoteKind, str], ...] = field(default=())

    def document(self) -> dict[str, Any]:
        events = dict(self.fields) if self.over_facts else {"prometheus": dict(self.fields)}
        return events if self.sliced is None else events | {"slices": dict(self.sliced)}

    def say(self, kind: NoteKind, text: str) -> Sli:
        return replace(self, notes=(*self.notes, (kind, text)))


def ratio(
    kind: Part, part: str, total: str, by: tuple[str, ...] = (), *, counter: bool = True
) -> Sli:
    """Make an SLI of two queries or selectors; BadInput if one is not PromQL."""
    part, total = promql.tidy(part), promql.tidy(total)
    if promql.write(promql.tokens(part)) == promql.write(promql.tokens(total)):
        raise BadInput(f"{kind} and total are the same query: the ratio is always 1")
    found = _selectors(kind, part, total, by, counter=counter) or _plain(kind, part, total, by)
    if found is not None:
        return found
    by = by or _common_by(part, total)
    windowed = [WINDOW in each for each in (part, total)]
    if all(windowed):
        return _windowed(kind, part, total, by)
    if not any(windowed):
        queries = {
            "total_query": _summed_by_minute(total),
            f"{kind}_query": _summed_by_minute(part),
        }
        return Sli(queries, by).say(
            "fixed",
            "the queries name no window: their values are summed over it minute by minute, so the "
            "ratio is of sums",
        )
    return Sli(
        {
            "total_query": _summed_by_minute(total),
            f"{kind}_query": _summed_by_minute(part),
            "resolution": SHORTEST_RATE,
        },
        by,
    ).say("fixed", "only one query names the window: the other is summed over it by the minute")


def raw(query: str, by: tuple[str, ...] = (), *, success: bool = False) -> Sli:
    """Make an SLI of a ratio that is computed already."""
    query = promql.tidy(query)
    cut = promql.difference_of(query)
    if cut is not None and cut[0] == "1" and (inner := promql.ratio_of(cut[1])):
        found = _plain("bad" if success else "good", *inner, by)
        if found is not None:
            return found.say("kept", "one minus a ratio of two counters is read as the counters")
    inner_ratio = promql.ratio_of(query)
    if inner_ratio is not None:
        found = _plain("good" if success else "bad", *inner_ratio, by)
        if found is not None:
            return found.say("kept", "the ratio of two counters is read as the counters")
    error = f"1 - ({query})" if success else query
    by = by or promql.by_of(query)
    fields = {"total_query": f"count_over_time(({query})[{WINDOW}:{STEP}])"}
    if WINDOW in query:
        fields |= {"error_ratio_query": error, "resolution": SHORTEST_RATE}
    else:
        fields |= {"error_ratio_query": f"avg_over_time(({error})[{WINDOW}:{STEP}])"}
    return Sli(fields, by).say(
        "lost",
        "a ratio without its counts: every minute weighs the same, quiet or busy, and min_bad "
        "counts bad minutes",
    )


def threshold(query: str, operator: str, value: float, by: tuple[str, ...] = ()) -> Sli:
    """Make an SLI of a value that must be on one side of another, sampled each minute."""
    if operator not in _MISSED:
        raise BadInput(f"op {operator!r} is not one of {', '.join(_MISSED)}")
    query = promql.tidy(query)
    notes: list[tuple[NoteKind, str]] = [
        ("kept", f"each minute's value is an event, bad if it is {_MISSED[operator]} {value:g}")
    ]
    if WINDOW in query:
        query = query.replace(WINDOW, "5m")
        notes.append(("fixed", "a value over the whole window has no events: it is taken over 5m"))
    by = by or promql.by_of(query)
    return Sli(
        {
            "total_query": f"{_sum(by)}(count_over_time(({query})[{WINDOW}:{STEP}]))",
            "bad_query": f"{_sum(by)}(sum_over_time((({query}) {_MISSED[operator]} bool {value:g})"
            f"[{WINDOW}:{STEP}]))",
        },
        by,
        by_minute=True,
        notes=tuple(notes),
    )


def slices(sli: Sli, width: timedelta, target: float | None) -> Sli:
    """Budget by slices of time.

    A slice with traffic is good when its share of good reaches `target`; without a target the
    shares are averaged (OpenSLO's RatioTimeslices). What cannot be counted in slices is asked for
    in queries; BadInput for requests' slices of such a length, and for averages of theirs.
    """
    text = format_duration(width)
    if sli.over_facts and target is None:
        raise BadInput(unread_method("RatioTimeslices"))
    if target is not None and (sli.over_facts or _is_counted(sli, width)):
        percent = round(target * 100, 10)
        make_slices(width, percent)
        tidy = int(percent) if percent == int(percent) else percent
        what = "requests" if sli.over_facts else "events"
        found = replace(sli, slices="kept", sliced={"length": text, "good": tidy})
        return found.say("kept", f"slices of {text}, judged by their {what}")
    if sli.by_minute and text == STEP:
        return replace(sli, slices="kept").say(
            "kept", "slices of one minute hold one value each, so each is an event"
        )
    error = _error_of(sli, text)
    if error is None:
        return replace(sli, slices="lost").say(
            "lost", f"budgeting by slices of {text}: events are counted instead"
        )
    fields = {"total_query": f"count_over_time(({error})[{WINDOW}:{text}])"}
    if target is None:
        fields["error_ratio_query"] = f"avg_over_time(({error})[{WINDOW}:{text}])"
        return replace(sli, fields=fields, slices="kept").say(
            "kept", f"shares are averaged by slices of {text}"
        )
    allowed = round(1 - target, 12)
    fields["bad_query"] = f"sum_over_time((({error}) > bool {allowed:g})[{WINDOW}:{text}])"
    return replace(sli, fields=fields, slices="kept").say(
        "kept", f"each slice of {text} with traffic is an event, bad above {allowed:g} errors"
    )


def _is_counted(sli: Sli, width: timedelta) -> bool:
    """Say whether the events of others are counted finely enough to be judged by slices."""
    if width not in LENGTHS or sli.by_minute or "error_ratio_query" in sli.fields:
        return False
    if "total_query" not in sli.fields:
        return True
    return not width % parse_duration(sli.fields.get("resolution", STEP))


def foreign(name: str, system: str, kind: Part = "bad") -> Sli:
    """Stand in for an indicator that only another system can answer: series yet to be fed."""
    return Sli(
        {
            "total": f'slo_events_total{{slo="{name}"}}',
            kind: f'slo_events_total{{slo="{name}",result="{kind}"}}',
        },
        draft=True,
    ).say(
        "lost",
        f"the indicator is a query of {system}, which only {system} can answer; it is kept as the "
        "annotation `sli_origin`: name counters in Prometheus under `prometheus:`. Until they "
        "exist the SLO has no data and alerts nobody",
    )


def _selectors(
    kind: Part, part: str, total: str, by: tuple[str, ...], *, counter: bool
) -> Sli | None:
    judged, whole = promql.summed(part), promql.summed(total)
    if judged is None or whole is None:
        return None
    (part, part_by), (total, total_by) = judged, whole
    if set(part_by) != set(total_by):
        return None
    by = by or total_by
    if counter:
        return Sli({"total": total, kind: part}, by).say("kept", "two counters, counted exactly")
    return Sli(
        {
            "total_query": f"{_sum(by)}(sum_over_time({total}[{WINDOW}]))",
            f"{kind}_query": f"{_sum(by)}(sum_over_time({part}[{WINDOW}]))",
        },
        by,
    ).say("kept", "two gauges, whose samples are summed")


def _plain(kind: Part, part: str, total: str, by: tuple[str, ...]) -> Sli | None:
    whole = promql.plain(total)
    if whole is None:
        return None
    judged = promql.plain(part)
    cut = promql.difference_of(part)
    if judged is None and cut is not None:
        first, judged = promql.plain(cut[0]), promql.plain(cut[1])
        if first != whole:
            return None
        kind = _OTHER[kind]
    if judged is None or (set(judged.by), judged.range) != (set(whole.by), whole.range):
        return None
    if judged.function != whole.function:
        return None
    sli = Sli({"total": whole.selector, kind: judged.selector}, by or whole.by)
    if whole.range != WINDOW:
        sli = sli.say("fixed", f"the fixed range [{whole.range}] gives way to each window judged")
    return sli.say("kept", "rates of two counters, which are counted exactly")


def _windowed(kind: Part, part: str, total: str, by: tuple[str, ...]) -> Sli:
    fields = {"total_query": _as_counts(total), f"{kind}_query": _as_counts(part)}
    if promql.uses_range(part) or promql.uses_range(total):
        fields["resolution"] = SHORTEST_RATE
    return Sli(fields, by).say("kept", "queries over the window, as counts")


def _as_counts(query: str) -> str:
    """Rates times the window are counts."""
    if not promql.uses_rate(query):
        return query
    return promql.counts(query) or f"({query}) * {promql.SECONDS}"


def _error_of(sli: Sli, window: str) -> str | None:
    """Write the share of errors of one slice, without a value where there was no traffic."""
    fields = sli.fields
    if sli.draft:
        return None
    if "error_ratio_query" in fields:
        return _at(fields["error_ratio_query"], window)
    kind: Part = "good" if {"good", "good_query"} & fields.keys() else "bad"
    if "total" in fields:
        part, total = (
            f"{_sum(sli.group_by)}(increase({fields[key]}[{window}]))" for key in (kind, "total")
        )
    elif "total_query" in fields:
        part, total = (_at(fields[f"{key}_query"], window) for key in (kind, "total"))
    else:
        return None
    return _error_ratio(kind, part, total)


def _at(query: Any, window: str) -> str:
    seconds = f"{parse_duration(window).total_seconds():g}"
    return str(query).replace(promql.SECONDS, seconds).replace(WINDOW, window)


def _error_ratio(kind: Part, part: str, total: str) -> str:
    share = f"(({part}) or ({total}) * 0) / (({total}) > 0)"
    return share if kind == "bad" else f"1 - {share}"


def _summed_by_minute(query: str) -> str:
    if WINDOW in query:
        return _as_counts(query)
    return f"sum_over_time(({query})[{WINDOW}:{STEP}])"


def _common_by(part: str, total: str) -> tuple[str, ...]:
    by = promql.by_of(total)
    return by if set(by) == set(promql.by_of(part)) else ()


def _sum(by: tuple[str, ...]) -> str:
    return f"sum by ({', '.join(by)}) " if by else "sum"
