"""`tokenweir slo ...`: what can be done with SLO documents without a running instance.

Each command lives in a file of its own and is mounted here.
"""

from __future__ import annotations

import typer

slo_app = typer.Typer(name="slo", help="SLO documents.", no_args_is_help=True)


@slo_app.callback()
def documents() -> None:
    """SLO documents: read those of others, write those that others read."""
