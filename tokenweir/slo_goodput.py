"""`tokenweir slo goodput`: a benchmark tool's figure beside the SLI of the same requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from base.durations import format_instant
from base.errors import ConfigError
from slo.backtest.facts_file import Reading
from slo.backtest.values import ARRIVALS
from slo.documents import load as load_slos
from slo.goodput.difference import Difference, Own, differences, own_of
from slo.goodput.figure import Figure, Mode, check_limits, figure
from slo.goodput.limits import Limits, clause_texts, limits_of, parse_limits, slo_of
from slo.goodput.requests import MEASURED, Requests, read_requests, together
from slo.model import Slo
from tokenweir.slo_backtest_json import input_json
from tokenweir.slo_backtest_view import say, show_input, table
from tokenweir.slo_history import Wanted, open_source
from tokenweir.slo_judging import out, telling

MOST_REASONS = 6


@dataclass(frozen=True, slots=True)
class Asked:
    """Limits, or the SLO (`name`, if the documents hold several) that sets them."""

    mode: str
    slo: Sequence[Path] = ()
    name: str | None = None
    limits: str | None = None
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """`beyond` are clauses of the SLO that the tool has no word for."""

    limits: Limits
    slo: Slo
    beyond: Sequence[str]
    requests: Requests
    figure: Figure
    own: Own
    differences: Sequence[Difference]


def run_goodput(asked: Asked, wanted: Wanted) -> int:
    """Print both figures and why they differ; 1 if rows of a file were not used."""
    mode = _mode(asked.mode)
    limits, slo, beyond = _asked(asked)
    check_limits(mode, limits)
    has_times = mode is Mode.ETALON and wanted.data is None
    columns = (*MEASURED, ARRIVALS) if has_times else MEASURED
    parts: list[Requests] = []
    with open_source(replace(wanted, columns=columns)) as source, telling("measuring") as told:

        def look(at: str) -> None:
            span = {"since": wanted.since, "until": wanted.until}
            parts.append(read_requests(source.engine, slo, at, has_token_times=has_times, **span))

        source.judge([slo], told, look)
    if not parts or not any(part.count for part in parts):
        raise ConfigError("there is no request that is asked about: nothing can be said")
    requests = together(parts)
    found = figure(mode, requests, limits)
    answer = Answer(
        limits, slo, beyond, requests, found, own_of(requests), differences(requests, found)
    )
    if asked.as_json:
        report = _json(answer, asked, source.reading)
        sys.stdout.write(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    else:
        _show(out, answer, asked, source.reading)
    return 1 if source.reading.bad else 0


def _mode(written: str) -> Mode:
    try:
        return Mode(written.lower())
    except ValueError as error:
        raise ConfigError(f"--mode {written!r}: {', '.join(Mode)}") from error


def _asked(asked: Asked) -> tuple[Limits, Slo, tuple[str, ...]]:
    if (asked.limits is None) == (not asked.slo):
        raise ConfigError(
            "say what good is: --limits 'ttft:2000 tpot:100 e2el:10000' or --slo FILE, one of them"
        )
    if asked.limits is not None:
        limits = parse_limits(asked.limits)
        return limits, slo_of(limits), ()
    slos = {slo.name: slo for slo in load_slos(asked.slo)}
    name = asked.name if asked.name is not None or len(slos) != 1 else next(iter(slos))
    if name is None or name not in slos:
        raise ConfigError(
            f"--name {name or '…'} is needed, one of: {', '.join(slos) or 'no SLO is there'}"
        )
    if slos[name].prometheus is not None:
        raise ConfigError(f"slo {name!r}: its events come from Prometheus, not from requests")
    limits, beyond = limits_of(slos[name])
    return limits, slos[name], beyond


def _show(console: Console, answer: Answer, asked: Asked, reading: Reading) -> None:
    found, own = answer.figure, answer.own
    console.print(
        f"[bold]{found.mode}[/] and tokenweir on {answer.requests.count:,} requests in "
        f"{found.seconds:,.3f} s, limits {escape(str(answer.limits))}",
        highlight=False,
    )
    both = table("", f">{found.mode}", ">tokenweir")
    both.add_row("good", f"{found.good:,}", f"{own.good:,}")
    both.add_row("of", f"{found.counted:,}", f"{own.good + own.bad:,}")
    both.add_row("share", _percent(found.share), _percent(own.sli))
    seconds = answer.requests.wall_s()
    own_rate = own.good / seconds if seconds > 0 else None
    both.add_row("good per second", _number(found.per_s), _number(own_rate))
    left_out = sum(found.dropped.values())
    both.add_row("left out", f"{left_out:,}", f"{own.excluded:,} (excluded)")
    console.print(both)
    printed = table(f"as {found.mode} names it", ">")
    for name, value in found.figures.items():
        printed.add_row(name, _number(value))
    console.print(printed)
    for what, count in found.dropped.items():
        say(console, f"left out by {found.mode}: {count:,} {what}")
    if own.reasons:
        told = list(own.reasons.items())[:MOST_REASONS]
        say(console, "bad here: " + ", ".join(f"{count:,} {why}" for why, count in told))
    console.print()
    _show_differences(console, answer)
    for note in found.notes:
        say(console, note, "dim")
    if asked.limits is not None:
        texts = "; ".join(f"{name}: {text}" for name, text in clause_texts(answer.limits).items())
        say(console, f"tokenweir asked: {texts}", "dim")
    for clause in answer.beyond:
        say(console, f"{found.mode} has no word for the clause {clause!r}", "yellow")
    show_input(console, reading)


def _show_differences(console: Console, answer: Answer) -> None:
    if not answer.differences:
        say(console, "Both see every request the same.", "green")
        return
    why = table(">requests", f"{answer.figure.mode}", "tokenweir", "because")
    for each in answer.differences:
        why.add_row(f"{each.requests:,}", each.tool, each.own, escape(each.why))
    console.print(why)


def _percent(share: float | None) -> str:
    return "—" if share is None else f"{share:.3%}"


def _number(value: float | None) -> str:
    if value is None:
        return "—"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _json(answer: Answer, asked: Asked, reading: Reading) -> dict[str, Any]:
    found, own = answer.figure, answer.own
    starts = answer.requests.start_ns
    return {
        "mode": str(found.mode),
        "limits": dict(answer.limits.items()),
        "clauses": {each.name: each.name for each in answer.slo.good}
        if asked.limits is None
        else clause_texts(answer.limits),
        "beyond": list(answer.beyond),
        "requests": answer.requests.count,
        "first_start": format_instant(_moment(int(starts.min()))),
        "last_start": format_instant(_moment(int(starts.max()))),
        "seconds": found.seconds,
        "tool": {
            "good": found.good,
            "counted": found.counted,
            "share": found.share,
            "good_per_s": found.per_s,
            "left_out": dict(found.dropped),
            "figures": dict(found.figures),
        },
        "own": {
            "good": own.good,
            "bad": own.bad,
            "excluded": own.excluded,
            "sli": own.sli,
            "reasons": dict(own.reasons),
        },
        "differences": [
            {"tool": each.tool, "own": each.own, "why": each.why, "requests": each.requests}
            for each in answer.differences
        ],
        "notes": list(found.notes),
        "input": input_json(reading),
    }


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
