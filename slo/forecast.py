"""When the budget will be spent, with an interval that holds it four times in five. Pure.

The budget of a rolling window is spent when what came in outweighs what rolled out:
bad - allowance x total, summed over the window, reaches zero. What rolls out is known; what comes
in is drawn, path by path: traffic from past days (of the same weekday, where there are two weeks),
the bad share from the daily shape of the past times the present level. The level is that of the
longest stretch up to now that one level explains; it is as uncertain as that stretch is short and
as days have differed before. So an incident is taken to go on: the forecast says what will be if
nobody acts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from base.durations import format_duration
from slo.budget import Count, allowance
from slo.levels import ALIKE, present_levels

PATHS = 200
DAY = timedelta(days=1)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Past:
    """Judged requests in steps of one length, oldest first; the last one holds now."""

    step: timedelta
    good: Ints
    bad: Ints


@dataclass(frozen=True, slots=True)
class Forecast:
    """The median and the 80 % interval of the instant at which nothing is left.

    `at` is None where the budget will more likely than not last for a window, `latest` where it
    may, `earliest` where it almost surely will; all are None where it is spent already.
    """

    at: datetime | None
    earliest: datetime | None
    latest: datetime | None
    says: str


EXHAUSTED = Forecast(None, None, None, "exhausted")


def forecast(
    past: Past, now: datetime, spent: Count, objective: float, window: timedelta
) -> Forecast | None:
    """Foresee the exhaustion of a rolling budget of which `spent` is in the window now.

    `past` should reach back two windows, and at least the window. None without data.
    """
    if spent.total == 0:
        return None
    allowed = allowance(objective)
    debt = spent.bad - allowed * spent.total
    if debt >= 0:
        return EXHAUSTED
    elapsed = (now.timestamp() % past.step.total_seconds()) / past.step.total_seconds()
    steps = max(1, round(window / past.step))
    incoming = _incoming(past, steps, allowed)
    outgoing = _outgoing(past, steps, allowed)
    change = incoming - outgoing
    change[:, 0] *= 1 - elapsed  # what is left of the step that holds now
    debts = debt + np.cumsum(change, axis=1)
    crossed = debts >= 0
    first = crossed.argmax(axis=1)
    paths = np.arange(len(debts))
    before = np.where(first > 0, debts[paths, first - 1], debt)
    part = -before / np.where(crossed[paths, first], debts[paths, first] - before, 1)
    begins = np.where(first > 0, first - elapsed, 0)
    spans = begins + np.clip(part, 0, 1) * np.where(first > 0, 1, 1 - elapsed)
    spans = np.where(crossed.any(axis=1), spans, np.inf)
    low, middle, high = np.quantile(spans, (0.1, 0.5, 0.9), method="inverted_cdf")
    return _said(now, past.step, window, low, middle, high)


def _said(
    now: datetime, step: timedelta, window: timedelta, low: float, middle: float, high: float
) -> Forecast:
    earliest, at, latest = (
        None if np.isinf(steps) else now + step * float(steps) for steps in (low, middle, high)
    )
    within = format_duration(window)
    if earliest is None:
        says = f"not within {within}"
    elif at is None:
        says = f"probably not within {within}, at the earliest in {_rough(earliest - now)}"
    elif latest is None:
        says = f"in about {_rough(at - now)}, at the earliest in {_rough(earliest - now)}"
    else:
        says = f"in about {_rough(at - now)}, {_rough(earliest - now)} to {_rough(latest - now)}"
    return Forecast(at, earliest, latest, says)


def _rough(span: timedelta) -> str:
    """Write a duration to two units."""
    for unit in (timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)):
        if span >= 10 * unit:
            return format_duration(round(span / unit) * unit)
    return format_duration(timedelta(seconds=max(1, round(span.total_seconds()))))


def _outgoing(past: Past, steps: int, allowed: float) -> Floats:
    """List what each step of the window brought, in the order in which it rolls out."""
    kept = min(len(past.bad), steps + 1)
    change = past.bad - allowed * (past.bad + past.good)
    out = np.zeros(steps)
    known = change[len(change) - kept : len(change) - 1]
    out[steps - len(known) :] = known
    return out


def _incoming(past: Past, steps: int, allowed: float) -> Floats:
    """Draw what the steps to come bring; one row a path."""
    rng = np.random.default_rng(0)  # the same question has the same answer
    expected = _Expected(past)
    present = present_levels(past.bad, expected.bad, expected.a_day)
    traffic, shares = expected.drawn(steps, rng)
    days = np.arange(steps) // expected.a_day
    wobble = rng.normal(0, present.unrest * np.sqrt(1 - ALIKE**2), (PATHS, int(days[-1]) + 1))
    for day in range(1, wobble.shape[1]):
        wobble[:, day] += ALIKE * wobble[:, day - 1]
    levels = present.levels
    chosen = rng.choice(len(levels), PATHS, p=[each.chance for each in levels])
    value = np.array([each.value for each in levels])[chosen]
    doubt = np.array([each.doubt for each in levels])[chosen]
    pace = (value * np.exp(rng.normal(0, 1, PATHS) * doubt))[:, None] * np.exp(wobble[:, days])
    mean = np.minimum(traffic * shares * pace, traffic)
    bad = np.minimum(rng.poisson(mean), traffic)
    return np.asarray(bad - allowed * traffic, np.float64)


class _Expected:
    """What a step brings by its place in day and week, were the level of failures 1."""

    def __init__(self, past: Past) -> None:
        total = (past.bad + past.good).astype(np.float64)
        known = int(np.flatnonzero(total)[0]) if total.any() else 0
        self.a_day = max(1, round(DAY / past.step))
        days = (len(total) - known) // self.a_day
        self._seasonal = days >= 2
        if not self._seasonal:
            self.a_day = max(1, (len(total) - known) // 8)
            days = (len(total) - known) // self.a_day
        self._blocks = total[len(total) - days * self.a_day :].reshape(days, self.a_day)
        failed = past.bad[len(total) - days * self.a_day :].reshape(days, self.a_day)
        overall = (past.bad.sum() + 0.5) / (total.sum() + 1)
        shape = _shape(failed, self._blocks, overall) if self._seasonal else np.ones(self.a_day)
        self._shares = overall * shape
        places = (np.arange(len(total)) - len(total)) % self.a_day
        self.bad = total * self._shares[places]

    def drawn(self, steps: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw traffic, a row a path, and say the share of each step; step 0 holds now."""
        # Blocks end with the step that holds now, so the next day begins one step earlier than they
        # do: roll them, so that each begins with that step's place in the day.
        blocks = np.roll(self._blocks, 1, axis=1)
        if len(blocks) > 1:
            blocks[1:, 0], blocks[0, 0] = self._blocks[:-1, -1], self._blocks[0, -1]
        else:
            blocks = self._blocks
        count = -(-steps // self.a_day)
        weekly = self._seasonal and len(blocks) >= 14
        chosen = np.empty((PATHS, count), np.int64)
        for day in range(count):
            alike = np.arange(len(blocks))
            if weekly:
                alike = alike[(len(blocks) - alike + day) % 7 == 0]
            chosen[:, day] = rng.choice(alike, PATHS)
        traffic = blocks[chosen].reshape(PATHS, -1)[:, :steps] * self._trend()
        places = (np.arange(steps) - 1) % self.a_day
        return traffic, self._shares[places][None, :]

    def _trend(self) -> float:
        """Compare the newest three days' traffic with that of the same places before."""
        recent, before = self._blocks[-3:], self._blocks[:-3]
        if not self._seasonal or len(before) < 7 or not before.sum():
            return 1.0
        alike = np.mean([self._blocks[-3 - 7 : -7].sum(), before.mean() * recent.size])
        return float(np.clip(recent.sum() / alike, 0.25, 4)) if alike else 1.0


def _shape(failed: Ints, total: Floats, overall: float) -> Floats:
    """Find how the bad share of each place in the day compares with its day's.

    A place's highest day is left out, so that one incident is no habit; few failures pull to 1.
    """
    of_day = (failed.sum(axis=1) + 1) / (total.sum(axis=1) + 1 / overall)
    expected = total * of_day[:, None]
    ratio = failed / np.where(expected > 0, expected, 1)
    if len(ratio) >= 5:
        highest = ratio.argmax(axis=0)
        keep = np.ones(ratio.shape, bool)
        keep[highest, np.arange(ratio.shape[1])] = False
    else:
        keep = np.ones(ratio.shape, bool)
    weight = np.where(keep, expected, 0)
    few = 10.0  # failures
    found = ((ratio * weight).sum(axis=0) + few) / (weight.sum(axis=0) + few)
    mean = np.average(found, weights=total.sum(axis=0) + 1e-9)
    return np.asarray(found / mean, np.float64)
