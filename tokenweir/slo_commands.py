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

    Ends with 2 if one was refused; the others are written all the same.
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


def _say(lines: list[str], stream: TextIO) -> None:
    for line in lines:
        print(line, file=stream)
