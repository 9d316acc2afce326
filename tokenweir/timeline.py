"""What has to happen in the demo, and when it was seen to happen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import httpx
from rich.console import Console
from rich.table import Table
from rich.text import Text

from base.clock import Clock

Check = Callable[[], Awaitable[str | None]]


@dataclass(slots=True)
class Step:
    """One thing that must be seen.

    `check` answers with a note once it is seen, with None before. `within_s` counts from the
    start of the timeline. A step is only looked for once the step named by `after` was seen.
    """

    key: str
    title: str
    within_s: float
    check: Check
    after: str | None = None
    seen_at_s: float | None = None
    note: str = ""

    @property
    def in_time(self) -> bool:
        return self.seen_at_s is not None and self.seen_at_s <= self.within_s


class Timeline:
    """Polls the steps until all are seen or the last limit has passed."""

    def __init__(self, steps: Sequence[Step], clock: Clock, poll_s: float = 0.5) -> None:
        self.steps = list(steps)
        self._clock = clock
        self._poll_s = poll_s
        self._start = 0.0

    @property
    def elapsed_s(self) -> float:
        return self._clock.monotonic() - self._start

    async def run(
        self, on_seen: Callable[[Step], None], on_poll: Callable[[], None] | None = None
    ) -> bool:
        """Watch; True when every step was seen within its limit."""
        self._start = self._clock.monotonic()
        limit = max(step.within_s for step in self.steps)
        while any(step.seen_at_s is None for step in self.steps) and self.elapsed_s <= limit:
            for step in self.steps:
                if step.seen_at_s is None and self._may_look(step):
                    note = await self._look(step)
                    if note is not None:
                        step.seen_at_s, step.note = self.elapsed_s, note
                        on_seen(step)
            if on_poll is not None:
                on_poll()
            await asyncio.sleep(self._poll_s)
        return all(step.in_time for step in self.steps)

    async def _look(self, step: Step) -> str | None:
        try:
            return await step.check()
        except httpx.HTTPError:
            return None  # busy, or restarting: look again

    def _may_look(self, step: Step) -> bool:
        if step.after is None:
            return True
        return any(s.key == step.after and s.seen_at_s is not None for s in self.steps)

    def missing(self) -> list[str]:
        """Name the steps that are looked for and were not seen yet."""
        return [s.title for s in self.steps if s.seen_at_s is None and self._may_look(s)]

    def show(self, step: Step, console: Console) -> None:
        """Say in one line that a step was seen."""
        width = max(len(step.title) for step in self.steps)
        mark = ("✓", "green") if step.in_time else ("✗", "red")
        at = f"{step.seen_at_s or 0:4.0f} s  "
        line = Text.assemble(mark, at, f"{step.title:<{width}}  ", (step.note, "dim"))
        console.print(line, no_wrap=True, overflow="ellipsis")

    def table(self) -> Table:
        """Summarise: step, limit, when it was seen, what was seen."""
        table = Table(title="Timeline of the incident", title_justify="left", expand=False)
        table.add_column("", width=1)
        table.add_column("step", no_wrap=True)
        table.add_column("at", justify="right", no_wrap=True)
        table.add_column("limit", justify="right", style="dim", no_wrap=True)
        table.add_column("seen", overflow="fold")
        for step in self.steps:
            mark = "[green]✓[/]" if step.in_time else "[red]✗[/]"
            at = "—" if step.seen_at_s is None else f"{step.seen_at_s:.0f} s"
            table.add_row(mark, step.title, at, f"{step.within_s:.0f} s", step.note)
        return table
