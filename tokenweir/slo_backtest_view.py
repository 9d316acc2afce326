"""A backtest for people: tables, a budget chart, and what was not used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from base.durations import format_duration
from slo.backtest.facts_file import Reading
from slo.backtest.history import History
from slo.model import Slo
from slo.plan import unjudged_of
from slo.spending.model import CostSlo
from slo.weight import REQUESTS
from tokenweir.slo_backtest import Alert, Backtest, Final, Outcome, totals

MOST_ALERTS = 40
MOST_MISSES = 20
MOST_CHARTS = 12
MOST_BAD_ROWS = 10
CHART_POINTS = 24
_BARS = "▁▂▃▄▅▆▇█"
_SECOND = timedelta(seconds=1)


def show(
    console: Console,
    backtest: Backtest,
    history: History,
    reading: Reading,
    outcomes: Sequence[Outcome],
    what_if: Sequence[Outcome],
    skipped: Sequence[Slo | CostSlo],
) -> None:
    _head(console, history, reading, outcomes)
    console.print(_slos(outcomes))
    _alerts(console, backtest, outcomes)
    _misses(console, backtest, outcomes)
    console.print(_budgets(backtest, outcomes))
    if what_if:
        console.print(_what_if(what_if))
    for slo in skipped:
        say(console, f"{slo.name} was not judged: {unjudged_of(slo)}", "yellow")
    show_input(console, reading)


def show_input(console: Console, reading: Reading) -> None:
    """Say what of the input was not used, or not there."""
    for name, files in reading.missing.items():
        say(console, f"column {name} is not in {', '.join(files)}: unknown there", "yellow")
    for name, files in reading.ignored.items():
        say(console, f"column {name} of {', '.join(files)} means nothing here: ignored", "dim")
    if not reading.bad:
        return
    rows = "1 row was" if reading.bad == 1 else f"{reading.bad:,} rows were"
    say(console, f"{rows} not used:", "bold red")
    for row in reading.bad_rows[:MOST_BAD_ROWS]:
        say(console, f"  {row}", "red")
    if reading.bad > MOST_BAD_ROWS:
        say(console, f"  and {reading.bad - MOST_BAD_ROWS:,} more (--json names them)", "red")


def say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)


def _head(
    console: Console, history: History, reading: Reading, outcomes: Sequence[Outcome]
) -> None:
    grid, span = history.grid, history.span
    first, last = grid.at(span.first), grid.at(span.end - 1)
    every = grid.at(span.first + 1) - first
    told = totals(outcomes)
    console.print(
        f"{_many(told['pages'], 'page')}, {_many(told['tickets'], 'ticket')}, "
        f"{_many(told['misses'], 'miss', 'es')} in {_length(last - first)}, "
        f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC",
        highlight=False,
    )
    say(
        console,
        f"{reading.rows:,} requests, judged at {span.end - span.first:,} instants, "
        f"every {format_duration(every)}",
        "dim",
    )


def _slos(outcomes: Sequence[Outcome]) -> Table:
    shown = table("SLO", "target", ">groups", ">pages", ">tickets", ">misses", ">false",
                   ">to detect", ">budget left")  # fmt: skip
    for each in outcomes:
        is_told = each.false_pages is not None
        shown.add_row(
            escape(each.slo.name),
            _target(each.slo),
            f"{len(each.final):,}",
            _count(len(each.pages), "red"),
            _count(len(each.tickets), "yellow"),
            _count(len(each.misses), "magenta"),
            _count(each.false_pages or 0, "magenta") if is_told else "",
            _seconds(each.median_seconds_to_detect),
            _left(each.least_budget),
        )
    return shown


def _alerts(console: Console, backtest: Backtest, outcomes: Sequence[Outcome]) -> None:
    every = [(each.slo, alert) for each in outcomes for alert in each.alerts]
    if not every:
        say(console, "No alert would have fired.", "green")
        return
    every.sort(key=lambda pair: (not pair[1].is_page, pair[1].fired_at))
    shown = table("", "fired", "resolved", ">lasted", "SLO", "group", "tier", ">to detect", "")
    for slo, alert in every[:MOST_ALERTS]:
        shown.add_row(*_alert(backtest, slo, alert))
    console.print(shown)
    if len(every) > MOST_ALERTS:
        say(console, f"and {len(every) - MOST_ALERTS:,} more alerts (--json has all)", "dim")


def _alert(backtest: Backtest, slo: Slo, alert: Alert) -> list[str]:
    ended = alert.resolved_at
    return [
        "[bold red]page[/]" if alert.is_page else "[yellow]ticket[/]",
        _time(alert.fired_at),
        "[bold]firing[/]" if ended is None else _time(ended),
        "" if ended is None else _length(ended - alert.fired_at),
        escape(slo.name),
        escape(_group(backtest, slo, alert.group)),
        escape(alert.timed.page_tier),
        _seconds(alert.seconds_to_detect),
        "[magenta]false[/]" if alert.is_false else "",
    ]


def _misses(console: Console, backtest: Backtest, outcomes: Sequence[Outcome]) -> None:
    every = [(each.slo, miss) for each in outcomes for miss in each.misses]
    small = sum(each.small for each in outcomes)
    unseen = [(each.slo, d) for each in outcomes for d in each.detected if d.paged_at is None]
    if every:
        shown = table("missed from", "to", "SLO", "group", "tier", ">burn", ">bad")
        for slo, miss in every[:MOST_MISSES]:
            shown.add_row(
                _time(miss.start), _time(miss.end), escape(slo.name),
                escape(_group(backtest, slo, miss.group)), escape(miss.stretch.tier.name),
                f"{miss.stretch.burn:.3g}×", f"{miss.stretch.bad:,}",
            )  # fmt: skip
        console.print(shown)
        if len(every) > MOST_MISSES:
            say(console, f"and {len(every) - MOST_MISSES:,} more misses (--json has all)", "dim")
    for slo, found in unseen:
        who = _group(backtest, slo, found.group) or "all requests"
        said = f"{slo.name}, {who}: no page for the incident of {_time(found.incident.start)}"
        say(console, said, "magenta")
    if small:
        say(console, f"{small:,} times a few bad requests burned fast, as the guard expects", "dim")


def _budgets(backtest: Backtest, outcomes: Sequence[Outcome]) -> Table:
    every = [(each.slo, final) for each in outcomes for final in each.final]
    every.sort(key=_worst_first)
    shown = table("at the end", "group", ">good", ">bad", ">excluded", ">SLI", ">left",
                   "budget over time")  # fmt: skip
    for slo, final in every[:MOST_CHARTS]:
        points = [left for _, left in backtest.budget(slo, final.group, CHART_POINTS)]
        shown.add_row(
            escape(slo.name if slo.unit == REQUESTS else f"{slo.name} ({slo.unit})"),
            escape(_group(backtest, slo, final.group)),
            f"{final.count.good:,}",
            f"{final.count.bad:,}",
            f"{final.excluded:,}",
            "—" if final.sli is None else f"{final.sli:.3%}",
            _left(final.budget_remaining),
            chart(points),
        )
    if len(every) > MOST_CHARTS:
        shown.caption = f"the {MOST_CHARTS} worst of {len(every):,}"
    return shown


def chart(points: Iterable[float | None]) -> Text:
    """Draw what was left of a budget as one line: a full block is all of it, red is overspent."""
    line = Text()
    for left in points:
        if left is None:
            line.append("·", "dim")
        elif left <= 0:
            line.append(_BARS[0], "red")
        else:
            style = "green" if left > 0.25 else "yellow"
            line.append(_BARS[min(len(_BARS) - 1, int(left * len(_BARS)))], style)
    return line


def _what_if(outcomes: Sequence[Outcome]) -> Table:
    shown = table("what if", "target", "tiers", ">pages", ">tickets", ">misses", ">to detect",
                   ">budget left", "")  # fmt: skip
    for each in outcomes:
        dead = ", ".join(each.variant.unfireable)
        shown.add_row(
            escape(each.slo.name),
            _target(each.slo),
            escape(each.variant.tiers),
            _count(len(each.pages), "red"),
            _count(len(each.tickets), "yellow"),
            _count(len(each.misses), "magenta"),
            _seconds(each.median_seconds_to_detect),
            _left(each.least_budget),
            f"[dim]can never fire: {escape(dead)}[/]" if dead else "",
        )
    return shown


def table(*columns: str) -> Table:
    """Make a table; a column that begins with > is set to the right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    for name in columns:
        is_number = name.startswith(">")
        table.add_column(
            name.removeprefix(">"),
            justify="right" if is_number else "left",
            no_wrap=name != "group",
        )
    return table


def _worst_first(pair: tuple[Slo, Final]) -> float:
    left = pair[1].budget_remaining
    return float("inf") if left is None else left


def _group(backtest: Backtest, slo: Slo, group: tuple[str, ...]) -> str:
    return ", ".join(f"{k}={v or '(unknown)'}" for k, v in backtest.members(slo, group).items())


def _target(slo: Slo) -> str:
    others = f" (+{len(slo.overrides)})" if slo.overrides else ""
    return f"{slo.objective * 100:.10g} %{others}"


def _left(remaining: float | None) -> str:
    if remaining is None:
        return "[dim]no data[/]"
    style = "red" if remaining <= 0 else "yellow" if remaining <= 0.25 else "green"
    return f"[{style}]{remaining:.1%}[/]"


def _many(number: int, what: str, ending: str = "s") -> str:
    return f"[bold]{number:,}[/] {what}{'' if number == 1 else ending}"


def _count(number: int, style: str) -> str:
    return f"[{style}]{number:,}[/]" if number else "0"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else _length(timedelta(seconds=seconds))


def _length(span: timedelta) -> str:
    """Write a duration to two units: nobody needs the seconds of a week."""
    for unit in (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)):
        if span >= unit:
            size = {86_400: 3600, 3600: 60, 60: 1}[round(unit.total_seconds())]
            return format_duration(span // timedelta(seconds=size) * timedelta(seconds=size))
    return format_duration(span // _SECOND * _SECOND)


def _time(at: datetime) -> str:
    return f"{at:%m-%d %H:%M:%S}"
