"""Where the demonstration speaks."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

_PIPE_COLUMNS = 100


def _console() -> Console:
    """Write 100 columns into a pipe or a file, where no window says how wide it is."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_COLUMNS)


out = _console()


def progress() -> Progress:
    """Make a bar that is gone once its work is done."""
    columns = (TextColumn("  {task.description}"), BarColumn(), TaskProgressColumn(),
               TimeElapsedColumn())  # fmt: skip
    # Into a pipe a bar would only be written once, at its end.
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)
