"""What a backtest looks at: judged requests of some SLOs, when sources were heard, the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from base.durations import format_instant
from base.errors import BadInput
from slo.backtest.cells import (
    Cells,
    Evaluations,
    Gathered,
    Grid,
    Group,
    Key,
    grid_of,
    read_judged,
)
from slo.backtest.heard import ALIVE, Heard, Silence, silence
from slo.budget import Count
from slo.evaluator import windows_of, windows_of_all
from slo.exclusion import Excluded
from slo.model import Slo
from slo.settings import SloSettings
from slo.windows import NS
from store.engine import Engine

AT_ONCE = 400_000
"""Facts that the engine judges at once, but for an hour that has more."""

_HOUR_NS = 3600 * NS
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class History:
    """Counts of every SLO and group; `span` is when verdicts are made, `heard` by whom."""

    cells: Mapping[Key, Cells]
    grid: Grid
    span: Evaluations
    heard: Heard | None = ALIVE

    def groups(self, slo: Slo) -> list[Group]:
        """List the groups of an SLO; one without groups has one, also without requests."""
        found = [group for name, group in self.cells if name == slo.name]
        return found or ([] if slo.group_by else [()])

    def of(self, slo: Slo, group: Group) -> Cells | None:
        return self.cells.get((slo.name, group))

    def silence(self, slo: Slo, settings: SloSettings) -> Silence:
        """Find when the sources were silent, or heard too little, for groups it holds for."""
        windows = windows_of(slo)
        return silence(self.heard, slo.window, windows, settings, self.grid, self.span, slo.slices)

    def count(
        self, slo: Slo, group: Group, length: timedelta, evaluation: int
    ) -> tuple[Count, int]:
        """Count judged and excluded requests of the window that ends at an evaluation."""
        cells = self.of(slo, group)
        if cells is None:
            return Count(), 0
        end, in_cells = evaluation * self.grid.every, self.grid.cells(length)
        bad, total = cells.window(np.array([end]), in_cells)
        excluded = cells.excluded_in(end, in_cells)
        return Count(int(total[0] - bad[0]), int(bad[0])), excluded


def grid_for(slos: Iterable[Slo], every: timedelta) -> Grid:
    """Choose the grid on which every window of these SLOs is whole."""
    return grid_of(every, windows_of_all(slos))


def make_history(
    found: Gathered,
    grid: Grid,
    since: datetime | None = None,
    until: datetime | None = None,
    heard: Heard | None = ALIVE,
) -> History | None:
    """Count requests; verdicts from `since` (else the first request) to `until` (else the last).

    None: there is no request. Requests before `since` are in windows all the same, those after
    `until` are not looked at.
    """
    oldest, newest = found.oldest(), found.newest()
    if oldest is None or newest is None:
        return None
    first = grid.first_from(since if since is not None else _moment(oldest))
    last = grid.last_until(until) if until is not None else grid.first_from(_moment(newest))
    if last < first:
        raise BadInput(
            f"there is nothing to judge: requests began from {format_instant(_moment(oldest))} to "
            f"{format_instant(_moment(newest))}, and verdicts are asked for outside of that"
        )
    until_ns = last * grid.every * grid.cell_us * 1000
    return History(found.cells(grid, until_ns), grid, Evaluations(first, last + 1), heard)


def read_store(
    engine: Engine,
    slos: Sequence[Slo],
    into: Gathered,
    excluded: Sequence[Excluded] = (),
    also: Callable[[str], None] | None = None,
) -> Iterator[int]:
    """Judge all facts of a store, some hours at a time; yields how many were looked at so far.

    `also` is told where each piece can be read.
    """
    done = 0
    rows = engine.rows(
        "SELECT toInt64(intDiv(toUnixTimestamp64Nano(start), 3600000000000)) AS hour, "
        "count() AS n FROM facts GROUP BY hour ORDER BY hour"
    )
    for hours, count in _pieces([(row["hour"], row["n"]) for row in rows]):
        span = (hours[0] * _HOUR_NS, (hours[-1] + 1) * _HOUR_NS)  # between them there is nothing
        read_judged(engine, slos, [span], into, excluded=excluded)
        if also is not None:
            also(
                "(SELECT * FROM facts FINAL "
                f"WHERE start >= fromUnixTimestamp64Nano(toInt64({span[0]}), 'UTC') "
                f"AND start < fromUnixTimestamp64Nano(toInt64({span[1]}), 'UTC'))"
            )
        done += count
        yield done


def extent_of(engine: Engine) -> tuple[datetime, datetime] | None:
    """Find from when to when a store has facts."""
    (row,) = engine.rows("SELECT min(start) AS first, max(start) AS last, count() AS n FROM facts")
    return (row["first"], row["last"]) if row["n"] else None


def _pieces(hours: Sequence[tuple[int, int]]) -> Iterator[tuple[list[int], int]]:
    """Part hours so that the engine holds what it judges at once."""
    held: list[int] = []
    facts = 0
    for hour, count in hours:
        if held and facts + count > AT_ONCE:
            yield held, facts
            held, facts = [], 0
        held.append(hour)
        facts += count
    if held:
        yield held, facts


def _moment(nanoseconds: int) -> datetime:
    """Round up to the microsecond, so that the request is in a window that ends there."""
    return _EPOCH + timedelta(microseconds=-(-nanoseconds // 1000))
