"""What the page of an SLO reads beside its verdict, side by side where it can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy

from base.db import transaction
from cost.read import Window
from dashboards.budget_figure import Edit, Happened, LeftOut
from dashboards.budgets import (
    FINE,
    BudgetPoint,
    read_counts,
    read_spending,
    read_spent,
    step_of,
)
from dashboards.control import AlertView, LeaseView, read_alerts, read_leases
from dashboards.reader import PATIENCE_S, Reader
from dashboards.slo_state import WINDOW
from dashboards.stretches import Stretch
from slo import exclusion_book, version_book
from slo.exclusion import Exclusion, occurrences
from slo.model import Slo
from slo.series import Series
from slo.verdict import Verdict
from slo.version_book import Version

# Older counts are kept by the minute, and then by the hour.
_KEPT = ((timedelta(days=1), timedelta(seconds=10)), (timedelta(days=29), timedelta(minutes=1)))


@dataclass(frozen=True, slots=True)
class SloFacts:
    """`spent` is of the stretch; `counts` of the page's time range, in steps of `step`.

    `window` is the part of that range which is over. Acts are those for the SLO's sake. Exclusions
    are those that touch the group, whatever became of them; versions are the newest first.
    """

    spent: tuple[BudgetPoint, ...]
    counts: Series | None
    window: Window
    step: timedelta
    alerts: Sequence[AlertView]
    acts: Sequence[LeaseView]
    exclusions: Sequence[Exclusion]
    versions: Sequence[Version]


def read_facts(
    reader: Reader, slo: Slo | None, verdict: Verdict, stretch: Stretch, window: Window
) -> SloFacts:
    """Read what one group's page shows."""
    deps, now = reader.deps, verdict.at
    window = Window(min(window.start, now), min(window.end, now)) if window.start < now else window
    step = step_for(window, now)
    reading = counting = None
    if slo is not None:
        reading = reader.start(read_spent, reader, slo, verdict, stretch)
        counting = reader.start(read_counts, reader, slo, verdict, window, step)
    elif verdict.cost is not None and stretch.key == WINDOW:
        reading = reader.start(read_spending, reader, verdict)
    first = min(stretch.start, now - verdict.window, window.start)
    fired = read_alerts(deps.db, Window(first, now), now, verdict.slo)
    return SloFacts(
        spent=reading.result(PATIENCE_S) if reading else (),
        counts=counting.result(PATIENCE_S) if counting else None,
        window=window,
        step=step,
        alerts=[alert for alert in fired if dict(alert.group) == dict(verdict.group)],
        acts=[act for act in read_leases(deps.db, Window(first, now)) if act.slo == verdict.slo],
        exclusions=read_exclusions(deps.db, slo, verdict.group) if slo else (),
        versions=read_versions(deps.db, verdict.slo),
    )


def step_for(window: Window, now: datetime) -> timedelta:
    """Pick the step that fits a time range, no finer than what is kept of its beginning."""
    least = timedelta(hours=1)
    for age, step in reversed(_KEPT):
        if now - window.start <= age:
            least = step
    return max(step_of(window.end - window.start, FINE), least)


def read_exclusions(
    db: sqlalchemy.Engine, slo: Slo, group: Mapping[str, str] | None
) -> list[Exclusion]:
    """List what was ever proposed for an SLO, the newest first; for one of its groups, or any."""
    with transaction(db) as connection:
        found = exclusion_book.every(connection)
    return [each for each in found if each.applies_to(slo) and touches(each, group)]


def touches(exclusion: Exclusion, group: Mapping[str, str] | None) -> bool:
    """Tell whether an exclusion is about a group: about all, or about one of its members."""
    return group is None or all(group.get(k, v) == v for k, v in exclusion.match.items())


def read_versions(db: sqlalchemy.Engine, name: str) -> list[Version]:
    with transaction(db) as connection:
        return version_book.history(connection, name)


def left_out(exclusions: Sequence[Exclusion], window: Window) -> list[LeftOut]:
    """List when the approved exclusions took requests out of a window."""
    return [
        LeftOut(start, end, f"left out: {exclusion.reason}")
        for exclusion in exclusions
        if exclusion.state == "approved"
        for start, end in occurrences(exclusion, window.start, window.end)
    ]


def happened(facts: SloFacts, window: Window) -> Happened:
    """Gather what a chart of a window shows beside its line."""
    return Happened(
        alerts=facts.alerts,
        acts=facts.acts,
        left_out=left_out(facts.exclusions, window),
        edits=[Edit(each.at, f"v{each.number}") for each in facts.versions],
    )
