"""Charts of one budget: how it was spent, what is foreseen, and what happened meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cost.read import Window
from dashboards.budgets import BudgetPoint, allowed_of
from dashboards.control import AlertView, LeaseView
from dashboards.figures import Band, Chart, Event, Mark, Outlook, Series, around, ms, short
from dashboards.stretches import Stretch
from dashboards.wording import span
from slo.series import Series as Counts
from slo.verdict import Verdict

_MOST_AHEAD = 0.6  # of what lies behind: the past keeps most of the picture


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A time in which requests do not count, and why."""

    start: datetime
    end: datetime
    words: str


@dataclass(frozen=True, slots=True)
class Edit:
    """A moment at which the document changed."""

    at: datetime
    words: str


@dataclass(frozen=True, slots=True)
class Happened:
    """What a budget's chart shows beside the line."""

    alerts: Sequence[AlertView] = ()
    acts: Sequence[LeaseView] = ()
    left_out: Sequence[LeftOut] = ()
    edits: Sequence[Edit] = ()


def burndown(
    points: Sequence[BudgetPoint],
    verdict: Verdict,
    events: Sequence[Event] = (),
    left_out: Sequence[LeftOut] = (),
) -> Chart:
    """Draw the budget left over the window, with the even spend it may not exceed."""
    window = Window(verdict.at - verdict.window, verdict.at)
    chart = Chart(
        "Error budget left",
        height=250,
        unit="percent",
        at=tuple(ms(point.at) for point in points),
        series=(_left(points, verdict.budget_remaining),),
        guide=((ms(window.start), 100.0), (ms(window.end), 0.0)),
        **around(window, events),
    )
    return replace(chart, bands=(*chart.bands, *_left_out(left_out, window)))


def outlook(
    points: Sequence[BudgetPoint], verdict: Verdict, stretch: Stretch, happened: Happened
) -> Chart:
    """Draw how a stretch of the budget was spent and, dashed, when it is foreseen to be gone."""
    foreseen = _foreseen(verdict, stretch) if stretch.is_rolling else None
    end = foreseen[1] if foreseen else stretch.ends
    window = Window(stretch.start, end)
    marks = [
        Mark(ms(each.at), each.words, "edit")
        for each in happened.edits
        if window.start <= each.at <= stretch.now
    ]
    marks += around(Window(stretch.start, stretch.now), happened.acts)["marks"]
    at = verdict.forecast.at if verdict.forecast else None
    if end > stretch.now:
        marks.append(Mark(ms(stretch.now), "now", "now"))
    if foreseen and at is not None and at <= end:
        marks.append(Mark(ms(at), f"spent in {span(at - verdict.at)}", "foreseen"))
    guide = ((ms(stretch.start), 100.0), (ms(stretch.ends), 0.0)) if stretch.is_whole else ()
    fired = _fired(happened.alerts, Window(stretch.start, stretch.now))
    return Chart(
        "Error budget left",
        height=280,
        start=ms(window.start),
        end=ms(window.end),
        unit="percent",
        at=tuple(ms(point.at) for point in points),
        series=(_left(points, stretch.remaining),),
        bands=(*_left_out(happened.left_out, Window(stretch.start, stretch.now)), *fired),
        marks=tuple(marks),
        guide=guide,
        outlook=foreseen[0] if foreseen else None,
        says=_aloud(verdict, happened, len(fired)),
    )


def bad_share(
    counts: Counts | None, window: Window, step: timedelta, verdict: Verdict, happened: Happened
) -> Chart:
    """Draw the share of bad requests by step, with the share that the objective allows."""
    title = "Bad share"
    pairs = [] if counts is None else list(zip(counts.good, counts.bad, strict=True))
    shares = tuple(short(bad / (good + bad) * 100) if good + bad else None for good, bad in pairs)
    if counts is None or not any(share is not None for share in shares):
        return Chart(title, height=180, empty="No judged request in this time range")
    allowed = round(allowed_of(verdict, 1) * 100, 10)
    fired = _fired(happened.alerts, window)
    return Chart(
        title,
        height=180,
        start=ms(window.start),
        end=ms(window.end),
        unit="percent",
        step=round(step.total_seconds() * 1000),
        at=tuple(ms(at) for at in counts.at),
        series=(Series("bad", "bad", "bars", shares),),
        bands=(*_left_out(happened.left_out, window), *fired),
        guide=((ms(window.start), allowed), (ms(window.end), allowed)),
        says=f"{allowed:g} % are allowed.",
    )


def _left(points: Sequence[BudgetPoint], remaining: float | None) -> Series:
    colour = "bad" if (remaining or 0) < 0 else "accent"
    return Series("budget left", colour, "step", tuple(short(p.remaining * 100) for p in points))


def _foreseen(verdict: Verdict, stretch: Stretch) -> tuple[Outlook, datetime] | None:
    """Lay the forecast out, and say how far the picture must reach; None: nothing is foreseen."""
    forecast, now = verdict.forecast, verdict.at
    left = verdict.budget_remaining
    if forecast is None or left is None or left <= 0 or forecast.earliest is None:
        return None
    last = forecast.latest or forecast.at or forecast.earliest
    end = now + min((last - now) * 1.12, stretch.length * _MOST_AHEAD)
    here = (ms(now), left * 100)
    line = (here, (ms(forecast.at), 0.0)) if forecast.at else ()
    area = [here, (ms(forecast.earliest), 0.0)]
    if forecast.latest is not None:
        area.append((ms(forecast.latest), 0.0))
    else:  # it may last: the upper edge is what is left now
        far = max(end, last)
        area += [(ms(far), 0.0), (ms(far), left * 100)]
    return Outlook(line, tuple(area)), end


def _fired(alerts: Sequence[AlertView], window: Window) -> list[Band]:
    out = []
    for alert in alerts:
        if alert.state == "pending":
            continue
        start, end = max(alert.since, window.start), min(alert.until or window.end, window.end)
        if start < end:
            words = f"{alert.severity} for {span((alert.until or window.end) - alert.since)}"
            out.append(Band(ms(start), ms(end), "fired", words))
    return out


def _left_out(spans: Sequence[LeftOut], window: Window) -> list[Band]:
    return [
        Band(ms(max(s.start, window.start)), ms(min(s.end, window.end)), "left-out", s.words)
        for s in spans
        if s.start < window.end and s.end > window.start
    ]


def _aloud(verdict: Verdict, happened: Happened, fired: int) -> str:
    said = [f"Forecast: {verdict.forecast.says}."] if verdict.forecast else []
    counted = (
        (fired, "alert fired", "alerts fired"),
        (len(happened.left_out), "time is left out", "times are left out"),
        (len(happened.acts), "act of the control loop", "acts of the control loop"),
        (len(happened.edits), "change of the document", "changes of the document"),
    )
    said += [f"{n} {one if n == 1 else many}." for n, one, many in counted if n]
    return " ".join(said)
