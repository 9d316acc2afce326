"""`tokenweir slo backtest`: what these SLOs would have said of a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median

from alerts.model import Severity
from alerts.settings import AlertSettings
from slo.backtest.cells import Group
from slo.backtest.history import History
from slo.backtest.incidents import Stretch, is_missed, is_small, onset, stretches
from slo.backtest.sweep import sweep
from slo.backtest.truth import Incident
from slo.backtest.variants import TierSet, Variant, variant, variants
from slo.budget import Count, budget_remaining, sli
from slo.model import Slo
from slo.settings import SloSettings
from tokenweir.alert_timeline import AlertTimeline, TimedAlert, Turned

BUDGET_POINTS = 60


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert of one group. `onset` is when the failures began that it paged for, None: no page.

    `is_false`: no incident that was said to have happened touches it; None where none was said.
    """

    group: Group
    timed: TimedAlert
    fired_at: datetime
    resolved_at: datetime | None
    paged_at: datetime | None
    onset: datetime | None
    turns: tuple[tuple[datetime, Turned], ...]
    is_false: bool | None = None

    @property
    def is_page(self) -> bool:
        return self.timed.severity is Severity.PAGE

    @property
    def seconds_to_detect(self) -> float | None:
        if self.paged_at is None or self.onset is None:
            return None
        return (self.paged_at - self.onset).total_seconds()


@dataclass(frozen=True, slots=True)
class Miss:
    """A stretch without a page, as times."""

    group: Group
    stretch: Stretch
    onset: datetime
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Final:
    """A group's budget at the last evaluation."""

    group: Group
    count: Count
    excluded: int
    sli: float | None
    budget_remaining: float | None


@dataclass(frozen=True, slots=True)
class Detected:
    """A said incident of one SLO, and the first page that it got; None: it was missed."""

    incident: Incident
    group: Group
    paged_at: datetime | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one SLO would have said. `small` counts stretches of a few bad requests, not paged."""

    variant: Variant
    alerts: tuple[Alert, ...]
    misses: tuple[Miss, ...]
    small: int
    final: tuple[Final, ...]
    detected: tuple[Detected, ...]

    @property
    def slo(self) -> Slo:
        return self.variant.slo

    @property
    def pages(self) -> list[Alert]:
        return [alert for alert in self.alerts if alert.is_page]

    @property
    def tickets(self) -> list[Alert]:
        return [alert for alert in self.alerts if not alert.is_page]

    @property
    def false_pages(self) -> int | None:
        """Count pages that no said incident explains; None where none was said."""
        told = [page.is_false for page in self.pages if page.is_false is not None]
        return sum(told) if told else None

    @property
    def median_seconds_to_detect(self) -> float | None:
        known = [s for page in self.pages if (s := page.seconds_to_detect) is not None]
        return median(known) if known else None

    @property
    def least_budget(self) -> float | None:
        known = [each.budget_remaining for each in self.final if each.budget_remaining is not None]
        return min(known, default=None)


class Backtest:
    """Judges SLOs over one history."""

    def __init__(
        self,
        history: History,
        settings: SloSettings,
        alerts: AlertSettings,
        incidents: Sequence[Incident] | None = None,
    ) -> None:
        self._history = history
        self._settings = settings
        self._alerts = alerts
        self._incidents = incidents

    def run(self, slo: Slo) -> Outcome:
        """Judge an SLO as its document has it."""
        return self.judge(variant(slo, slo.objective, TierSet("document")))

    def what_if(self, slo: Slo, targets: Sequence[float], sets: Sequence[TierSet]) -> list[Outcome]:
        """Judge it with every target and set of tiers, the document's own first."""
        return [self.judge(each) for each in variants(slo, targets, sets)]

    def judge(self, of: Variant) -> Outcome:
        slo, groups = of.slo, self._history.groups(of.slo)
        alerts: list[Alert] = []
        misses: list[Miss] = []
        small = 0
        for own, places in slo.by_variant(groups):
            small += self._play(own, [groups[place] for place in places], alerts, misses)
        alerts.sort(key=lambda alert: (alert.fired_at, alert.group))
        misses.sort(key=lambda miss: (miss.start, miss.group))
        final = tuple(self._final(slo))
        return Outcome(of, tuple(alerts), tuple(misses), small, final, self._detected(slo, alerts))

    def _play(
        self, slo: Slo, groups: Sequence[Group], alerts: list[Alert], misses: list[Miss]
    ) -> int:
        """Judge groups that an SLO holds for; returns how many stretches were small."""
        history, small = self._history, 0
        silence = history.silence(slo, self._settings)
        timeline = AlertTimeline(slo, history, self._alerts)
        for group in groups:
            cells = history.of(slo, group)
            if cells is None:
                continue
            played = timeline.play(group, sweep(slo, cells, history.grid, history.span, silence))
            alerts += [self._alert(slo, group, each) for each in played]
            pages = [
                (each.paged, each.resolved if each.resolved is not None else history.span.end)
                for each in played
                if each.paged is not None
            ]
            for stretch in stretches(slo, cells, history.grid, history.span):
                if is_missed(stretch, pages, history.grid):
                    misses.append(self._miss(slo, group, stretch))
                elif is_small(stretch, history.grid):
                    small += 1
            cells.forget()
        return small

    def budget(
        self, slo: Slo, group: Group, points: int = BUDGET_POINTS
    ) -> list[tuple[datetime, float | None]]:
        """Follow what was left of a budget, at even steps to the last evaluation."""
        span, grid = self._history.span, self._history.grid
        points = min(points, span.end - span.first)
        objective = slo.for_group(group).objective
        last = span.end - 1
        steps = [last - (last - span.first) * n // max(points - 1, 1) for n in range(points)]
        return [
            (grid.at(at), budget_remaining(self._count(slo, group, at)[0], objective))
            for at in reversed(steps)
        ]

    def members(self, slo: Slo, group: Group) -> dict[str, str]:
        return dict(zip(slo.group_by, group, strict=False))

    def _count(self, slo: Slo, group: Group, evaluation: int) -> tuple[Count, int]:
        return self._history.count(slo, group, slo.window, evaluation)

    def _final(self, slo: Slo) -> list[Final]:
        """Say how every group stands that was seen in the budget window; one empty if none was."""
        found = []
        for group in self._history.groups(slo):
            count, excluded = self._count(slo, group, self._history.span.end - 1)
            if count.total or excluded or not slo.group_by:
                remaining = budget_remaining(count, slo.for_group(group).objective)
                found.append(Final(group, count, excluded, sli(count), remaining))
        return found or [Final((), Count(), 0, None, None)]

    def _alert(self, slo: Slo, group: Group, timed: TimedAlert) -> Alert:
        at = self._history.grid.at
        paged_at = None if timed.paged is None else at(timed.paged)
        alert = Alert(
            group,
            timed,
            at(timed.fired),
            None if timed.resolved is None else at(timed.resolved),
            paged_at,
            None if timed.paged is None else self._onset(slo, group, timed.paged, timed.page_tier),
            tuple((at(turn.evaluation), turn) for turn in timed.turns),
        )
        if self._incidents is None or not alert.is_page:
            return alert
        explained = any(self._explains(each, slo, alert) for each in self._incidents)
        return replace(alert, is_false=not explained)

    def _explains(self, incident: Incident, slo: Slo, alert: Alert) -> bool:
        """Say whether an incident is what a page is about: the page was open during it.

        Or it came at most the shortest page window after: what failed last is paged then.
        """
        if not incident.concerns(slo.name, self.members(slo, alert.group)):
            return False
        tiers = slo.for_group(alert.group).tiers
        lag = min(tier.short for tier in tiers if tier.severity == "page")
        begun = alert.paged_at or alert.fired_at
        ended = alert.resolved_at
        return begun <= incident.end + lag and (ended is None or ended >= incident.start)

    def _detected(self, slo: Slo, alerts: Sequence[Alert]) -> tuple[Detected, ...]:
        found = []
        for incident in self._incidents or ():
            for group in self._history.groups(slo):
                if not incident.concerns(slo.name, self.members(slo, group)):
                    continue
                pages = [
                    alert.paged_at
                    for alert in alerts
                    if alert.group == group
                    and alert.paged_at is not None
                    and self._explains(incident, slo, alert)
                ]
                found.append(Detected(incident, group, min(pages, default=None)))
        return tuple(found)

    def _miss(self, slo: Slo, group: Group, stretch: Stretch) -> Miss:
        at = self._history.grid.at
        began = self._onset(slo, group, stretch.first, stretch.tier.name)
        return Miss(group, stretch, began, at(stretch.first), at(stretch.end))

    def _onset(self, slo: Slo, group: Group, evaluation: int, tier_name: str) -> datetime:
        tier = next(each for each in slo.tiers if each.name == tier_name)
        cells = self._history.of(slo, group)
        assert cells is not None  # noqa: S101  it burned
        return onset(cells, tier, slo.objective, self._history.grid, evaluation, slo.slices)


def totals(outcomes: Sequence[Outcome]) -> Mapping[str, int]:
    return {
        "pages": sum(len(each.pages) for each in outcomes),
        "tickets": sum(len(each.tickets) for each in outcomes),
        "misses": sum(len(each.misses) for each in outcomes),
    }
