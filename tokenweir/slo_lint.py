"""`tokenweir slo lint`: what is wrong or doubtful in SLO documents, for people and for CI."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from slo.backtest.facts_file import Reading
from slo.documents import Loaded, files_of, read
from slo.lint import Finding, Level, check_documents, exit_status, read_findings
from slo.lint_data import Sightings, check_data
from slo.model import Slo
from tokenweir.slo_backtest_json import input_json
from tokenweir.slo_backtest_view import show_input
from tokenweir.slo_history import Wanted, load, open_source
from tokenweir.slo_judging import out, telling

_STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.INFO: "dim"}
_ORDER = {level: number for number, level in enumerate(Level)}


@dataclass(frozen=True, slots=True)
class Asked:
    files: Sequence[Path]
    strict: bool = False
    as_json: bool = False


def run_lint(asked: Asked, wanted: Wanted | None) -> int:
    """Print findings; 0 clean, 1 warnings where they count, 2 errors."""
    loaded = read(asked.files)
    found = [*read_findings(loaded, files_of(asked.files)), *check_documents(loaded.every)]
    reading = Reading()
    if wanted is not None:
        of_data, reading = _against(loaded, wanted)
        found += of_data
    found.sort(key=lambda each: (_ORDER[each.level], each.file, each.line, each.code))
    if asked.as_json:
        report = {"findings": [_json(each) for each in found], "input": input_json(reading)}
        sys.stdout.write(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    else:
        _show(out, found, loaded)
        show_input(out, reading)
    status = exit_status(found, strict=asked.strict)
    return max(status, 1) if reading.bad else status


def _against(loaded: Loaded, wanted: Wanted) -> tuple[list[Finding], Reading]:
    slos: list[Slo] = [slo for slo in loaded.slos if slo.prometheus is None]
    if not slos:
        return [], Reading()
    sightings = Sightings(slos)
    with open_source(wanted) as source, telling("reading requests") as told:
        history = load(
            source, slos, wanted, told, also=lambda facts: sightings.look(source.engine, facts)
        )
        return check_data(slos, sightings, history), source.reading


def _show(console: Console, found: Sequence[Finding], loaded: Loaded) -> None:
    for each in found:
        place = f"{each.file}:{each.line}" if each.line else each.file
        who = f"{each.slo}: " if each.slo else ""
        console.print(
            Text.assemble(
                (f"{each.level:<8}", _STYLES[each.level]),
                (f"{place}: ", "bold"),
                f"{who}{each.message} ",
                (f"[{each.code}]", "dim"),
            ),
            soft_wrap=True,
        )
        if each.cure:
            console.print(Text(f"        → {each.cure}", "dim"), soft_wrap=True)
    counts = {level: sum(each.level is level for each in found) for level in Level}
    console.print(
        f"{len(loaded.every)} SLOs: {counts[Level.ERROR]} errors, "
        f"{counts[Level.WARNING]} warnings, {counts[Level.INFO]} good to know",
        highlight=False,
    )


def _json(finding: Finding) -> dict[str, object]:
    said = asdict(finding)
    return said | {"severity": str(said.pop("level"))}
