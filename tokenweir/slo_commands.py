"""`tokenweir slo ...`: what can be done with SLO documents without a running instance.

What each command does lives in a file of its own; here are its arguments.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

slo_app = typer.Typer(name="slo", help="SLO documents.", no_args_is_help=True)


@slo_app.callback()
def documents() -> None:
    """SLO documents: read those of others, write those that others read."""


@slo_app.command("import")
def import_command(
    files: Annotated[
        list[Path], typer.Argument(help="Files or folders: OpenSLO, Sloth, Pyrra, slo-generator.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to, a file for each SLO; else printed.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace documents of the same names.")
    ] = False,
) -> None:
    """Turn SLOs of other tools into native documents, with an account of every change.

    Ends with 2 if one was refused (the others are written all the same), with 1 if one has work
    left: a draft without an indicator, or events where time slices were meant.
    """
    from tokenweir.slo_import import import_slos

    printed, report, status = import_slos(files, out, overwrite=overwrite)
    sys.stdout.write(printed)
    _say(report, sys.stderr if out is None else sys.stdout)
    raise typer.Exit(status)


@slo_app.command("export")
def export_command(
    files: Annotated[list[Path], typer.Argument(help="SLO documents or folders of them.")],
    form: Annotated[
        str, typer.Option("--format", help="prometheus (rules) or openslo (v1 documents).")
    ] = "prometheus",
    out: Annotated[Path | None, typer.Option(help="File to write to; else printed.")] = None,
) -> None:
    """Write SLOs as Prometheus recording and alerting rules, or as OpenSLO v1 documents."""
    from tokenweir.slo_export import export_slos

    text, warnings = export_slos(files, form)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
    _say(warnings, sys.stderr)


@slo_app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of native documents, by which editors complete and check them."""
    from slo.json_schema import text

    sys.stdout.write(text())


SloFiles = Annotated[
    list[Path], typer.Option("--slo", help="SLO document or folder of them; repeatable.")
]
Facts = Annotated[
    list[Path] | None, typer.Option(help="Requests, .csv or .parquet, one a row; repeatable.")
]
DataFolder = Annotated[
    Path | None, typer.Option(help="Folder of an instance that does not run, for its requests.")
]
Config = Annotated[Path | None, typer.Option(help="tokenweir.yaml, for how live judging is set.")]
Since = Annotated[
    str | None, typer.Option("--from", help="First verdict: RFC 3339 or unix seconds.")
]
Until = Annotated[str | None, typer.Option("--to", help="Last verdict; later requests are unseen.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")]


@slo_app.command("backtest")
def backtest_command(
    slo: SloFiles,
    facts: Facts = None,
    data: DataFolder = None,
    since: Since = None,
    until: Until = None,
    target: Annotated[
        list[float] | None, typer.Option(help="What if the target were this %; repeatable.")
    ] = None,
    tiers: Annotated[
        list[str] | None,
        typer.Option(help="What if the tiers were these: classic, derived or a file; repeatable."),
    ] = None,
    incidents: Annotated[
        Path | None, typer.Option(help="CSV of what really happened, to find false pages.")
    ] = None,
    sources: Annotated[
        str, typer.Option(help="With --facts: sources are alive, or heard only by requests.")
    ] = "alive",
    every: Annotated[
        str | None, typer.Option(help="Time between verdicts, if not slo.evaluate_every.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show what SLOs would have said of a history: pages, misses, budgets, other targets and tiers.

    Ends with 1 if rows of a file could not be used; the others were.
    """
    from tokenweir.slo_backtest_command import Asked, run_backtest
    from tokenweir.slo_history import wanted

    asked = Asked(slo, target or (), tiers or (), incidents, as_json)
    where = wanted(facts, data, config, since=since, until=until, every=every, sources=sources)
    raise typer.Exit(run_backtest(asked, where))


@slo_app.command("plan")
def plan_command(
    slo: SloFiles,
    current: Annotated[
        list[Path] | None,
        typer.Option(help="Documents in force; else those of the last `up` on --data. Repeatable."),
    ] = None,
    facts: Facts = None,
    data: DataFolder = None,
    at: Annotated[
        str | None,
        typer.Option(help="As of when: RFC 3339 or unix seconds; else the last request."),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show what new SLO documents would change now: budgets, and alerts that fire or resolve.

    Ends with 0 if nothing gets worse, 2 if a budget is spent or exhausted by it or an alert would
    fire or get louder, 1 if it cannot be said.
    """
    from tokenweir.slo_history import wanted
    from tokenweir.slo_plan import Asked, run_plan

    asked = Asked(slo, current or (), as_json)
    raise typer.Exit(run_plan(asked, wanted(facts, data, config, until=at)))


@slo_app.command("lint")
def lint_command(
    files: Annotated[list[Path], typer.Argument(help="SLO documents or folders of them.")],
    facts: Facts = None,
    data: DataFolder = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with 1 if there are warnings.")
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Find what is wrong or doubtful in SLO documents, with requests also what they never meet.

    Ends with 0 if nothing is wrong, 2 with errors, 1 with warnings under --strict.
    """
    from tokenweir.slo_history import wanted
    from tokenweir.slo_lint import Asked, run_lint

    where = wanted(facts, data, config) if facts or data else None
    raise typer.Exit(run_lint(Asked(files, strict, as_json), where))


@slo_app.command("goodput")
def goodput_command(
    mode: Annotated[str, typer.Option(help="vllm, aiperf, etalon or distserve.")],
    limits: Annotated[
        str | None, typer.Option(help="Milliseconds: 'ttft:2000 tpot:100 e2el:10000'.")
    ] = None,
    slo: Annotated[
        list[Path] | None, typer.Option("--slo", help="SLO document that sets the limits.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Which SLO of the documents, if they hold several.")
    ] = None,
    facts: Facts = None,
    data: DataFolder = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Requests from then on: RFC 3339 or unix seconds.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Requests up to then.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show what a benchmark tool's goodput is of these requests, and why an SLI differs from it.

    Ends with 1 if rows of a file could not be used; the others were.
    """
    from tokenweir.slo_goodput import Asked, run_goodput
    from tokenweir.slo_history import wanted

    asked = Asked(mode, slo or (), name, limits, as_json)
    where = wanted(facts, data, config, since=since, until=until)
    raise typer.Exit(run_goodput(asked, where))


def _say(lines: list[str], stream: TextIO) -> None:
    for line in lines:
        print(line, file=stream)
