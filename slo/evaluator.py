"""Documents + counts + liveness at one instant -> verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from slo.budget import Count, budget_remaining, sli, time_to_exhaustion
from slo.burn import NO_COUNT, burn_by_window, burn_rate, judge
from slo.liveness import Layer, deciding_layer, read_layers
from slo.model import Slo
from slo.settings import SloSettings
from slo.verdict import State, TierVerdict, Verdict
from slo.window_counts import GroupCounts, count_windows
from store.engine import Engine

SHOWN = (
    timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=1), timedelta(hours=6),
)  # fmt: skip
"""Burn windows shown for every SLO whose window holds them, next to those of its tiers."""


class Evaluator:
    """Judges every group of every SLO. It reads the store and keeps nothing."""

    def __init__(self, engine: Engine, documents: Sequence[Slo], settings: SloSettings) -> None:
        self._engine = engine
        self._slos = tuple(documents)
        self._settings = settings

    @property
    def slos(self) -> tuple[Slo, ...]:
        return self._slos

    def replace(self, documents: Sequence[Slo]) -> None:
        """Judge other SLOs from the next evaluation on; count them first (`SloCounts.replace`)."""
        self._slos = tuple(documents)

    def evaluate(self, now: datetime) -> list[Verdict]:
        """Judge as of `now`: requests that started later are not looked at.

        A group seen in the budget window gets a verdict; an SLO without any gets one verdict
        with an empty group, so that "nothing" is said rather than left out.
        """
        slos = self._slos
        layers = read_layers(self._engine, {slo.window for slo in slos}, now)
        counts = self._count(slos, now)
        return [
            verdict for slo in slos for verdict in self._judge(slo, counts[slo.name], layers, now)
        ]

    def _count(self, slos: Sequence[Slo], now: datetime) -> Mapping[str, list[GroupCounts]]:
        by_window: dict[timedelta, list[Slo]] = defaultdict(list)
        for slo in slos:
            by_window[slo.window].append(slo)
        found: dict[str, list[GroupCounts]] = {slo.name: [] for slo in slos}
        for alike in by_window.values():
            lengths = {length for slo in alike for length in windows_of(slo)}
            found |= count_windows(self._engine, alike, sorted(lengths), now)
        return found

    def _judge(
        self, slo: Slo, groups: Sequence[GroupCounts], layers: Sequence[Layer], now: datetime
    ) -> list[Verdict]:
        layer = deciding_layer(layers, now - slo.window)
        if not groups:
            return [self._verdict(slo, {}, _NOTHING, layer, now)]
        return [
            self._verdict(slo, dict(zip(slo.group_by, each.group, strict=True)), each, layer, now)
            for each in groups
        ]

    def _verdict(
        self,
        slo: Slo,
        group: Mapping[str, str],
        counts: GroupCounts,
        layer: Layer | None,
        now: datetime,
    ) -> Verdict:
        whole = counts.windows.get(slo.window, NO_COUNT)
        remaining = budget_remaining(whole, slo.objective)
        tiers = tuple(judge(tier, counts.windows, slo.objective) for tier in slo.tiers)
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
            state=state_of(layer, now - self._settings.stale_after, tiers, remaining),
            tiers=tiers,
            bad_reasons=counts.bad_reasons,
            at=now,
            expires_in=time_to_exhaustion(remaining, _present_burn(slo, counts), slo.window),
            labels=slo.labels,
            annotations=_annotations(slo),
        )


def windows_of(slo: Slo) -> list[timedelta]:
    """Name every window an SLO needs, shortest first."""
    tiers = {length for tier in slo.tiers for length in (tier.long, tier.short)}
    return sorted({slo.window, *tiers, *(length for length in SHOWN if length <= slo.window)})


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
    if remaining is None or (tiers and all(tier.long_burn is None for tier in tiers)):
        return State.NO_TRAFFIC
    return State.EXHAUSTED if remaining <= 0 else State.OK


_NOTHING = GroupCounts((), {}, 0, {})


def _complete(slo: Slo, counts: Mapping[timedelta, Count]) -> dict[timedelta, Count]:
    return {length: counts.get(length, NO_COUNT) for length in windows_of(slo)}


def _present_burn(slo: Slo, counts: GroupCounts) -> float | None:
    """Burn over the last hour of a 30-day window, and as much less of a shorter one."""
    least = max(timedelta(minutes=1), slo.window / 720)
    usable = [length for length in windows_of(slo) if length >= least]
    length = usable[0] if usable else slo.window
    return burn_rate(counts.windows.get(length, NO_COUNT), slo.objective)


def _annotations(slo: Slo) -> Mapping[str, str]:
    described = {"description": slo.description} if slo.description else {}
    return described | dict(slo.annotations)
