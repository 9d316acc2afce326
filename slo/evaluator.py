"""Documents + counts + liveness at one instant -> verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

import numpy as np

from slo.budget import Count, Requests, budget_remaining, sli, time_to_exhaustion
from slo.burn import NO_COUNT, burn_by_window, burn_rate, judge_many, verdicts_of
from slo.calendar import Calendar
from slo.causes import LONGEST, CauseFinder
from slo.exclusion import Excluded, Exclusion, resolve
from slo.guard import RUN_REACH, Behind, Tally
from slo.liveness import Layer, deciding_layer, read_layers
from slo.model import Slo
from slo.outlook import Outlook
from slo.prometheus.heard import read_heard, silence_allowed
from slo.settings import SloSettings
from slo.slices import by_length, floor_to_slice
from slo.spending.model import CostSlo
from slo.verdict import PeriodVerdict, State, TierVerdict, Verdict
from slo.window_counts import GroupCounts, count_windows
from store.engine import Engine

SHOWN = (
    timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=1), timedelta(hours=6),
)  # fmt: skip
"""Burn windows shown for every SLO whose window holds them, next to those of its tiers."""


class Costs(Protocol):
    """Judges the SLOs about cost (`slo.spending.judge`)."""

    @property
    def slos(self) -> tuple[CostSlo, ...]: ...

    def evaluate(self, now: datetime, *, is_tick: bool = False) -> list[Verdict]: ...


class Evaluator:
    """Judges every group of every SLO. It reads the store and keeps nothing that decides.

    `exclusions` reads what was said not to count, `problems` why the counts of an SLO may lack
    something; both are asked at every evaluation. `costs` adds the verdicts of SLOs about cost,
    which are not among `slos`.
    """

    def __init__(
        self,
        engine: Engine,
        documents: Sequence[Slo],
        settings: SloSettings,
        exclusions: Callable[[], Sequence[Exclusion]] = tuple,
        problems: Callable[[], Mapping[str, str]] = dict,
        costs: Costs | None = None,
    ) -> None:
        self._engine = engine
        self._costs = costs
        self._slos = tuple(documents)
        self._settings = settings
        self._exclusions = exclusions
        self._problems = problems
        self._causes = CauseFinder(engine)
        self._outlook = Outlook(engine)

    @property
    def slos(self) -> tuple[Slo, ...]:
        return self._slos

    @property
    def costs(self) -> tuple[CostSlo, ...]:
        """The SLOs about cost, which are not among `slos`."""
        return () if self._costs is None else self._costs.slos

    def replace(self, documents: Sequence[Slo]) -> None:
        """Judge other SLOs from the next evaluation on; count them first (`SloCounts.replace`)."""
        self._slos = tuple(documents)

    def evaluate(self, now: datetime, *, is_tick: bool = False) -> list[Verdict]:
        """Judge as of `now`, and say what burns and what is to come.

        A group seen in the budget window or a calendar period gets a verdict; an SLO without any
        gets one verdict with an empty group, so that "nothing" is said rather than left out. A
        tick, made every few seconds, takes the dollars of its minute's first.
        """
        slos, exclusions = self._slos, self._exclusions()
        judged = self._judged(slos, now, exclusions)
        found = [
            verdict
            for slo in slos
            for verdict in self._explained(slo, judged[slo.name], exclusions, now)
        ]
        return found if self._costs is None else found + self._costs.evaluate(now, is_tick=is_tick)

    def what_if(self, now: datetime, exclusions: Sequence[Exclusion]) -> list[Verdict]:
        """Judge as if these exclusions were in force: without causes and forecasts."""
        judged = self._judged(self._slos, now, exclusions)
        return [verdict for verdicts in judged.values() for verdict in verdicts]

    def excluded(self, slos: Sequence[Slo], since: datetime, until: datetime) -> list[Excluded]:
        """Say what of these SLOs does not count within [since, until)."""
        return resolve(self._exclusions(), slos, since, until)

    def _heard(
        self, slos: Sequence[Slo], lengths: set[timedelta], now: datetime
    ) -> Mapping[str, Layer | None]:
        """Say for each SLO whose silence would freeze it.

        Silence is up to now; windows of slices are covered up to where they end.
        """
        layers = read_layers(self._engine, lengths, now)
        found = read_heard(self._engine, _from_prometheus(slos), lengths, now)
        heard = {
            slo.name: deciding_layer(layers, now - slo.window)
            if slo.prometheus is None
            else found.get(slo.name)
            for slo in slos
        }
        for length, alike in by_length((slo, slo.slices) for slo in slos).items():
            until = floor_to_slice(now, length)
            if until != now:
                heard |= self._covered(alike, heard, until)
        return heard

    def _covered(
        self, slos: Sequence[Slo], heard: Mapping[str, Layer | None], until: datetime
    ) -> dict[str, Layer]:
        """Take the coverage of windows that end at an instant from what was heard by then."""
        windows = windows_of_all(slos)
        layers = {layer.name: layer for layer in read_layers(self._engine, windows, until)}
        found = read_heard(self._engine, _from_prometheus(slos), windows, until)
        out: dict[str, Layer] = {}
        for slo in slos:
            layer = heard[slo.name]
            if layer is not None:
                earlier = layers.get(layer.name) if slo.prometheus is None else found.get(slo.name)
                out[slo.name] = replace(layer, coverage=earlier.coverage if earlier else {})
        return out

    def _count(
        self, slos: Sequence[Slo], now: datetime, exclusions: Sequence[Exclusion]
    ) -> Mapping[str, list[GroupCounts]]:
        by_kind: dict[tuple[timedelta, timedelta | None], list[Slo]] = defaultdict(list)
        for slo in slos:
            by_kind[slo.window, slo.slices.length if slo.slices else None].append(slo)
        found: dict[str, list[GroupCounts]] = {slo.name: [] for slo in slos}
        for (_, slice_length), alike in by_kind.items():
            lengths = windows_of_all(alike)
            since = {each.bounds(now)[0] for slo in alike for each in slo.calendars}
            first = min([floor_to_slice(now, slice_length) - max(lengths), *since])
            excluded = resolve(exclusions, alike, first, now + timedelta(microseconds=1))
            found |= count_windows(
                self._engine,
                alike,
                sorted(lengths),
                now,
                since=sorted(since),
                excluded=excluded,
                reach=RUN_REACH,
            )
        return found

    def _judged(
        self, slos: Sequence[Slo], now: datetime, exclusions: Sequence[Exclusion]
    ) -> dict[str, list[Verdict]]:
        """Judge by name of the SLO; requests that started after `now` are not looked at."""
        heard = self._heard(slos, windows_of_all(slos), now)
        problems = self._problems()
        counts = self._count(slos, now, exclusions)
        return {
            slo.name: self._judge(
                slo, counts[slo.name], heard[slo.name], problems.get(slo.name), now
            )
            for slo in slos
        }

    def _judge(
        self,
        slo: Slo,
        groups: Sequence[GroupCounts],
        layer: Layer | None,
        problem: str | None,
        now: datetime,
    ) -> list[Verdict]:
        counted = groups or [_NOTHING]
        found: dict[int, Verdict] = {}
        for own, places in slo.by_variant([each.group for each in counted]):
            some = [counted[place] for place in places]
            judged = judge_tiers(own, some, heard_of(own, layer, self._settings))
            for place, each, tiers in zip(places, some, judged, strict=True):
                group = dict(zip(slo.group_by, each.group, strict=False))
                found[place] = self._verdict(own, group, each, tiers, layer, problem, now)
        return [found[place] for place in range(len(counted))]

    def _explained(
        self, slo: Slo, verdicts: list[Verdict], exclusions: Sequence[Exclusion], now: datetime
    ) -> list[Verdict]:
        verdicts = self._outlook.foresee(slo, verdicts, now, exclusions)
        if slo.prometheus is not None:  # only requests of our own have anything to explain with
            return verdicts
        excluded = resolve(exclusions, [slo], now - LONGEST, now + timedelta(microseconds=1))
        return self._causes.explain(slo, verdicts, now, excluded)

    def _verdict(
        self,
        slo: Slo,
        group: Mapping[str, str],
        counts: GroupCounts,
        tiers: tuple[TierVerdict, ...],
        layer: Layer | None,
        problem: str | None,
        now: datetime,
    ) -> Verdict:
        whole = counts.windows.get(slo.window, NO_COUNT)
        remaining = budget_remaining(whole, slo.objective)
        return Verdict(
            slo=slo.name,
            group=group,
            objective=slo.objective,
            window=slo.window,
            good=whole.good,
            bad=whole.bad,
            excluded=counts.excluded,
            sli=sli(whole),
            budget_remaining=remaining,
            burn=burn_by_window(_complete(slo, counts.windows), slo.objective),
            coverage=layer.coverage.get(slo.window) if layer else None,
            watermark=layer.last if layer else None,
            state=state_of(layer, now - silence_allowed(slo, self._settings), tiers, remaining),
            tiers=tiers,
            bad_reasons=counts.bad_reasons,
            at=now,
            expires_in=time_to_exhaustion(remaining, _present_burn(slo, counts), slo.window),
            labels=slo.labels,
            annotations=_annotations(slo),
            periods=tuple(_period(each, slo, counts, now) for each in slo.calendars),
            bad_in_a_row=counts.run,
            problem=problem or _unweighed(slo, counts),
            unit=slo.unit,
            requests=counts.requests.get(slo.window, NO_REQUESTS) if slo.is_weighted else None,
            slices=slo.slices,
        )


def judge_tiers(
    slo: Slo, groups: Sequence[GroupCounts], heard: Mapping[timedelta, float]
) -> list[tuple[TierVerdict, ...]]:
    """Hold every tier of an SLO against groups that it holds for; a tuple of verdicts for each."""
    windows = {length: _tally(slo, groups, length) for length in windows_of(slo)}
    run = np.array([each.run for each in groups], np.int64)
    judged = (
        verdicts_of(tier, judge_many(tier, slo.objective, windows, run, heard))
        for tier in slo.tiers
    )
    return list(zip(*judged, strict=True)) if slo.tiers else [()] * len(groups)


def heard_of(slo: Slo, layer: Layer | None, settings: SloSettings) -> dict[timedelta, float]:
    """Say which share of a window was heard, of those in which that is too little to tell.

    Too little is less than the floor, unless what is missing is as short as what may pass before
    a source counts as silent.
    """
    heard, silence = {}, silence_allowed(slo, settings)
    for length in windows_of(slo):
        share = (layer.coverage.get(length) if layer else None) or 0.0
        missing = (1 - share) * length
        if share < settings.coverage_floor and missing > silence:
            heard[length] = share
    return heard


def windows_of_all(slos: Iterable[Slo]) -> set[timedelta]:
    """Name every window that some SLOs and their overrides need."""
    return {length for slo in slos for own in slo.variants for length in windows_of(own)}


def windows_of(slo: Slo) -> list[timedelta]:
    """Name every window an SLO needs, shortest first; its overrides have their own.

    Those of slices are whole ones only.
    """
    tiers = {length for tier in slo.tiers for length in (tier.long, tier.short)}
    shown = (length for length in SHOWN if length <= slo.window)
    if slo.slices is not None:
        shown = (length for length in shown if slo.slices.holds(length))
    return sorted({slo.window, *tiers, *shown})


def state_of(
    layer: Layer | None,
    heard_since: datetime,
    tiers: Sequence[TierVerdict],
    remaining: float | None,
) -> State:
    """Name the state: the first that applies, from "cannot know" to "fine"."""
    if layer is None:
        return State.ABSENT
    if layer.last < heard_since:
        return State.STALE
    if any(tier.burning for tier in tiers):
        return State.BURNING
    if not all(tier.known for tier in tiers):
        return State.STALE
    if remaining is None or (tiers and all(tier.long_burn is None for tier in tiers)):
        return State.NO_TRAFFIC
    return State.EXHAUSTED if remaining <= 0 else State.OK


NO_REQUESTS = Requests()
_NOTHING = GroupCounts((), {}, 0, {})
_MUCH_UNWEIGHED = 0.1


def _from_prometheus(slos: Sequence[Slo]) -> list[Slo]:
    return [slo for slo in slos if slo.prometheus is not None]


def _tally(slo: Slo, groups: Sequence[GroupCounts], length: timedelta) -> Tally:
    counts = [each.windows.get(length, NO_COUNT) for each in groups]
    bad = np.array([count.bad for count in counts], np.int64)
    total = bad + np.array([count.good for count in counts], np.int64)
    if not slo.is_weighted:
        return Tally(bad, total)
    found = [each.requests.get(length, NO_REQUESTS) for each in groups]
    requests, failed, heaviest = np.array(
        [(each.total, each.bad, each.heaviest) for each in found], np.int64
    ).T
    squares = np.array([each.squares for each in found], np.float64)
    return Tally(bad, total, Behind(requests, failed, heaviest, squares))


def _complete(slo: Slo, counts: Mapping[timedelta, Count]) -> dict[timedelta, Count]:
    return {length: counts.get(length, NO_COUNT) for length in windows_of(slo)}


def _present_burn(slo: Slo, counts: GroupCounts) -> float | None:
    """Burn over the last hour of a 30-day window, and as much less of a shorter one."""
    least = max(timedelta(minutes=1), slo.window / 720)
    usable = [length for length in windows_of(slo) if length >= least]
    length = usable[0] if usable else slo.window
    return burn_rate(counts.windows.get(length, NO_COUNT), slo.objective)


def _period(calendar: Calendar, slo: Slo, counts: GroupCounts, now: datetime) -> PeriodVerdict:
    start, end = calendar.bounds(now)
    count, excluded = counts.periods.get(start, (NO_COUNT, 0))
    return PeriodVerdict(
        period=calendar.period,
        zone=calendar.zone,
        start=start,
        end=end,
        good=count.good,
        bad=count.bad,
        excluded=excluded,
        sli=sli(count),
        budget_remaining=budget_remaining(count, slo.objective),
    )


def _unweighed(slo: Slo, counts: GroupCounts) -> str | None:
    """Say that much of what was judged has no weight: a budget of the rest may look too good."""
    behind = counts.requests.get(slo.window, NO_REQUESTS)
    if behind.unweighed <= _MUCH_UNWEIGHED * behind.total:
        return None
    return (
        f"{behind.unweighed:,} of {behind.total:,} judged requests have no known weight and are "
        "in no sum: give them one, such as coalesce(completion_tokens, 100)"
    )


def _annotations(slo: Slo) -> Mapping[str, str]:
    described = {"description": slo.description} if slo.description else {}
    return described | dict(slo.annotations)
