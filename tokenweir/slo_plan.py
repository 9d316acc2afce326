"""`tokenweir slo plan`: what new SLO documents would change, for people and for CI."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from base.durations import format_instant
from base.errors import ConfigError
from slo.backtest.facts_file import Reading
from slo.backtest.history import History
from slo.documents import load_all
from slo.model import Slo
from slo.plan import WORSE, GroupPlan, Kind, SloPlan, Standing, judged_as, plan
from tokenweir.datadir import last_run
from tokenweir.slo_backtest_json import input_json
from tokenweir.slo_backtest_view import say, show_input, table
from tokenweir.slo_history import Wanted, load, open_source
from tokenweir.slo_judging import err, out, telling

SAME, FAILED, WORSE_STATUS = 0, 1, 2
MOST_GROUPS = 30
_MARKS = {Kind.ADDED: "[green]+[/]", Kind.REMOVED: "[red]-[/]", Kind.CHANGED: "[yellow]~[/]"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The new documents, and the old ones: none given, those of the last `up` on the folder."""

    slo: Sequence[Path]
    current: Sequence[Path] = ()
    as_json: bool = False


def run_plan(asked: Asked, wanted: Wanted) -> int:
    """Print the plan; 0 nothing gets worse, 1 it could not be made, 2 something does."""
    try:
        return _run(asked, wanted)
    except (ConfigError, OSError) as error:
        err.print(f"[bold red]configuration[/]: {escape(str(error))}", highlight=False,
                  soft_wrap=True)  # fmt: skip
        return FAILED


def _run(asked: Asked, wanted: Wanted) -> int:
    new = load_all(asked.slo).every
    current = asked.current or (last_run(wanted.data).slo_paths if wanted.data else ())
    old = load_all(current).every
    with open_source(wanted) as source, telling("judging") as told:
        windows = [slo for slo in (*old, *new) if isinstance(slo, Slo)]
        history = load(source, judged_as(windows), wanted, told, windows)
        if history is None:
            raise ConfigError("there is no request that these SLOs ask about: nothing is known")
        found = plan(old, new, history, source.settings.slo)
    if asked.as_json:
        report = _json(found, history, source.reading)
        sys.stdout.write(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    else:
        _show(out, found, history, source.reading)
    if source.reading.bad:
        return FAILED
    return WORSE_STATUS if any(each.is_worse for each in found) else SAME


def _show(console: Console, found: Sequence[SloPlan], history: History, reading: Reading) -> None:
    for each in found:
        if each.kind is Kind.SAME:
            continue
        console.print(f"{_MARKS[each.kind]} [bold]{escape(each.name)}[/] {each.kind}",
                      highlight=False)  # fmt: skip
        if each.kind is not Kind.REMOVED:
            for line in each.lines:
                say(console, f"    {line}", "dim")
        if each.unjudged:
            say(console, f"    not judged: {each.unjudged}", "yellow")
        _show_groups(console, each)
    counts = {kind: sum(each.kind is kind for each in found) for kind in Kind}
    worse = sum(each.is_worse for each in found)
    at = format_instant(history.grid.at(history.span.end - 1))
    console.print(
        f"{counts[Kind.ADDED]} added, {counts[Kind.CHANGED]} changed, "
        f"{counts[Kind.REMOVED]} removed, {counts[Kind.SAME]} the same; as of {at}: "
        + (f"[bold red]{worse} for the worse[/]" if worse else "[green]nothing gets worse[/]"),
        highlight=False,
    )
    show_input(console, reading)


def _show_groups(console: Console, slo: SloPlan) -> None:
    told = [group for group in slo.groups if group.effects]
    if not told:
        return
    told.sort(key=lambda group: not any(effect in WORSE for effect in group.effects))
    shown = table("group", ">SLI", ">budget left", "alert", "")
    for group in told[:MOST_GROUPS]:
        shown.add_row(*_row(group))
    console.print(shown)
    if len(told) > MOST_GROUPS:
        say(console, f"    and {len(told) - MOST_GROUPS:,} more groups (--json has all)", "dim")


def _row(group: GroupPlan) -> list[str]:
    shares, budgets, alerts = (
        " → ".join(_said(each, what) for each in (group.before, group.after))
        for what in ("sli", "budget", "alert")
    )
    style = "red" if any(effect in WORSE for effect in group.effects) else "green"
    members = ", ".join(f"{k}={v or '(unknown)'}" for k, v in group.group.items())
    effects = ", ".join(group.effects)
    alerts = "" if set(alerts.split(" → ")) <= {"ok", "—"} else alerts
    return [escape(members) or "all", shares, budgets, escape(alerts), f"[{style}]{effects}[/]"]


def _said(standing: Standing | None, what: str) -> str:
    if standing is None:
        return "—"
    if what == "alert":
        return f"{standing.severity} ({', '.join(standing.burning)})" if standing.severity else "ok"
    share = standing.sli if what == "sli" else standing.budget_remaining
    return "no data" if share is None else f"{share:.3%}" if what == "sli" else f"{share:.1%}"


def _json(found: Sequence[SloPlan], history: History, reading: Reading) -> dict[str, Any]:
    return {
        "at": format_instant(history.grid.at(history.span.end - 1)),
        "worse": any(each.is_worse for each in found),
        "slos": [
            {
                "slo": each.name,
                "change": str(each.kind),
                "changes": list(each.lines),
                "judged": not each.unjudged,
                "worse": each.is_worse,
                "groups": [
                    {
                        "group": dict(group.group),
                        "before": _standing_json(group.before),
                        "after": _standing_json(group.after),
                        "effects": [str(effect) for effect in group.effects],
                    }
                    for group in each.groups
                ],
            }
            for each in found
        ],
        "input": input_json(reading),
    }


def _standing_json(standing: Standing | None) -> Mapping[str, Any] | None:
    if standing is None:
        return None
    return {
        "unit": standing.unit,
        "good": standing.count.good,
        "bad": standing.count.bad,
        "excluded": standing.excluded,
        "sli": standing.sli,
        "budget_remaining": standing.budget_remaining,
        "alert": standing.severity,
        "burning_tiers": list(standing.burning),
    }
