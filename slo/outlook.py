"""Forecasts for the verdicts that need one, made now and then rather than at every evaluation.

A forecast reads a group's history, so it is made for groups that spent some of their budget or
burn, the most urgent ones first, a limited number at a time, and kept for a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from slo.budget import Count
from slo.exclusion import Exclusion, resolve
from slo.forecast import EXHAUSTED, Forecast, Past, forecast
from slo.model import Slo
from slo.series import Series, read_series
from slo.slices import Slices
from slo.verdict import Verdict
from store.engine import Engine

MOST_AT_ONCE = 50
SPENT = 0.1
"""A group that burns nothing and spent less of its budget has no forecast."""

_STEPS = tuple(timedelta(seconds=s) for s in (10, 60, 600, 3600, 21_600))
_MOST_STEPS = 720  # of a window: the hours of a month
_LOOKED_BACK = 3000  # steps
_LONGEST = timedelta(minutes=5)
_SHORTEST = timedelta(seconds=30)

Group = tuple[str, ...]


class Outlook:
    """Adds forecasts to verdicts and remembers them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, tuple[datetime, dict[Group, Forecast | None]]] = {}

    def foresee(
        self,
        slo: Slo,
        verdicts: Sequence[Verdict],
        now: datetime,
        exclusions: Sequence[Exclusion] = (),
    ) -> list[Verdict]:
        """Return the verdicts of one SLO, those that need one with a forecast."""
        wanted = {tuple(each.group.values()): each for each in verdicts if _is_wanted(each)}
        at, known = self._known.get(slo.name, (None, {}))
        urgent = sorted(wanted, key=lambda group: _urgency(wanted[group]))[:MOST_AT_ONCE]
        age = None if at is None else now - at
        if age is None or age < timedelta(0) or self._is_due(slo, age, urgent, known):
            found = self._read(slo, {group: wanted[group] for group in urgent}, now, exclusions)
            if age is None or age >= timedelta(0):  # a question about the past is not remembered
                self._known[slo.name] = now, found
            known = found
        return [_with(each, known.get(tuple(each.group.values())), now) for each in verdicts]

    @staticmethod
    def _is_due(
        slo: Slo, age: timedelta, urgent: Sequence[Group], known: Mapping[Group, object]
    ) -> bool:
        if age >= max(_SHORTEST, min(_LONGEST, slo.window / 360)):
            return True
        return age >= _SHORTEST and any(group not in known for group in urgent)

    def _read(
        self,
        slo: Slo,
        wanted: Mapping[Group, Verdict],
        now: datetime,
        exclusions: Sequence[Exclusion],
    ) -> dict[Group, Forecast | None]:
        if not wanted:
            return {}
        step = step_of(slo.window, slo.slices)
        start = now - lookback_of(slo.window, slo.slices)
        excluded = resolve(exclusions, [slo], start - step, now + step)
        end = now + step if slo.slices is None else now  # slices that are not over do not count
        found = read_series(self._engine, slo, start, end, step, excluded, groups=sorted(wanted))
        return {
            group: forecast(
                past_of(series, start, now, step, request_weight(wanted[group])),
                now,
                spent_of(wanted[group]),
                wanted[group].objective or slo.objective,
                slo.window,
            )
            for series in found
            if (group := tuple(series.group.values())) in wanted
        }


def step_of(window: timedelta, slices: Slices | None = None) -> timedelta:
    """Choose how fine a forecast counts: hours for a month, ten seconds for an hour."""
    steps = _STEPS if slices is None else [step for step in _STEPS if slices.holds(step)]
    return next((step for step in steps if window / step <= _MOST_STEPS), steps[-1])


def lookback_of(window: timedelta, slices: Slices | None = None) -> timedelta:
    """Say how far back a forecast looks: a month where that is not too many steps."""
    step = step_of(window, slices)
    return max(window + step, min(timedelta(days=31), _LOOKED_BACK * step))


def request_weight(verdict: Verdict) -> float:
    """Say what a request weighs on average: a forecast counts as if each weighed the same.

    What is rare must look rare: a million tokens may be a hundred requests.
    """
    if verdict.requests is None or not verdict.requests.total:
        return 1.0
    return max(verdict.total / verdict.requests.total, 1.0)


def spent_of(verdict: Verdict) -> Count:
    each = request_weight(verdict)
    if each == 1:
        return Count(verdict.good, verdict.bad)
    return Count(round(verdict.good / each), round(verdict.bad / each))


def past_of(
    series: Series, start: datetime, now: datetime, step: timedelta, each: float = 1.0
) -> Past:
    """Lay a series out step by step, from the first whole step to the one that holds now.

    `each` is what a request weighs; what is rounded off one step is in the next.
    """
    size = round(step.total_seconds())
    first = -(-int(start.timestamp()) // size)
    last = int(now.timestamp()) // size
    good, bad = np.zeros((2, last - first + 1), np.int64)
    for at, each_good, each_bad in zip(series.at, series.good, series.bad, strict=True):
        place = int(at.replace(tzinfo=UTC).timestamp()) // size - first
        if 0 <= place < good.size:
            good[place], bad[place] = each_good, each_bad
    if each != 1:
        good, bad = (np.diff(np.rint(np.cumsum(n) / each), prepend=0.0) for n in (good, bad))
    return Past(step, good.astype(np.int64), bad.astype(np.int64))


def _is_wanted(verdict: Verdict) -> bool:
    left = verdict.budget_remaining
    if left is None or left <= 0:
        return False
    return left < 1 - SPENT or any(tier.burning for tier in verdict.tiers)


def _urgency(verdict: Verdict) -> tuple[bool, float]:
    calm = not any(tier.burning for tier in verdict.tiers)
    return calm, verdict.budget_remaining if verdict.budget_remaining is not None else 1.0


def _with(verdict: Verdict, found: Forecast | None, now: datetime) -> Verdict:
    left = verdict.budget_remaining
    if left is not None and left <= 0:
        return replace(verdict, forecast=EXHAUSTED)
    if found is None or found is EXHAUSTED:
        return verdict
    lasts = None if found.at is None else max(found.at - now, timedelta(0))
    return replace(verdict, forecast=found, expires_in=lasts)
