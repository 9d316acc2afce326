"""At which level requests fail now, compared with what is expected of them, and how sure that is.

Pure. All uncertainties are standard deviations of logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ALIKE = 0.6
"""Correlation of a day's level with the next day's."""

_SURE = 0.99  # chance that makes a change certain
_CHANGES = 0.3  # odds of one, before anything is known
_HALF_LIFE_DAYS = 3.0
_USUAL = 0.25  # unrest where little is known
_FEW = 6  # differences are little
_CLUMPS = (1 + ALIKE) / (1 - ALIKE)  # days that count as one


@dataclass(frozen=True, slots=True)
class Level:
    """How often requests fail compared with what is expected; `doubt` is of its logarithm."""

    value: float
    doubt: float
    chance: float


@dataclass(frozen=True, slots=True)
class Present:
    """The levels that may hold now, and how much the levels of days differ."""

    levels: tuple[Level, ...]
    unrest: float


def present_levels(bad: Ints, expected: Floats, a_day: int) -> Present:
    """Say at which level requests fail now: since the last change, or as before if there was none.

    `bad` and `expected` are aligned, oldest first, `a_day` entries a day. A change is a rise or
    fall that the unrest of days does not explain; where that is not sure, both levels have a
    chance.
    """
    unrest, noise = _unrest(bad, expected, a_day), _noise(bad, expected)
    failed, means = (np.cumsum(each[::-1]).astype(np.float64) for each in (bad, expected))
    stretch = len(bad)
    while True:
        length, chance = _change(failed[:stretch], means[:stretch], a_day, unrest, noise)
        if chance < _SURE:
            break
        stretch = length
    levels = [_level(bad, expected, stretch, a_day, unrest, noise, 1 - chance)]
    if length:
        levels.append(_level(bad, expected, length, a_day, unrest, noise, chance))
    return Present(tuple(levels), unrest)


def _level(
    bad: Ints,
    expected: Floats,
    stretch: int,
    a_day: int,
    unrest: float,
    noise: float,
    chance: float,
) -> Level:
    weight = 0.5 ** (np.arange(stretch) / a_day / _HALF_LIFE_DAYS)
    newest = slice(len(bad) - stretch, len(bad))
    failed = float(bad[newest][::-1] @ weight) + 0.5
    days = float(weight.sum()) / a_day
    doubt = np.sqrt(1 / failed + noise**2 / weight.sum() + unrest**2 * min(1.0, _CLUMPS / days))
    return Level(failed / (float(expected[newest][::-1] @ weight) + 0.5), float(doubt), chance)


def _change(
    failed: Floats, means: Floats, a_day: int, unrest: float, noise: float
) -> tuple[int, float]:
    """Find the likeliest change within a stretch, in steps back from now, and how likely it is.

    Sums run back from now. Changes are taken to be of any size around a factor of e.
    """
    lengths = np.arange(1, len(failed))
    new, new_mean = failed[:-1], means[:-1]
    old, old_mean = failed[-1] - new, means[-1] - new_mean
    usable = (new_mean > 0) & (old_mean > 0)
    if not usable.any():
        return 0, 0.0
    lift = np.log((new + 0.5) / (new_mean + 0.5)) - np.log((old + 0.5) / (old_mean + 0.5))
    days, old_days = (np.minimum(1, _CLUMPS * a_day / n) for n in (lengths, len(failed) - lengths))
    usual = 1 / (new + 0.5) + 1 / (old + 0.5) + unrest**2 * (days + old_days) + noise**2 / lengths
    odds = 0.5 * (lift**2 / usual - lift**2 / (usual + 1) - np.log((usual + 1) / usual))
    odds = np.where(usable, odds, -np.inf)
    likely = odds >= max(odds.max() - 3, 0)
    if not likely.any():
        return 0, 0.0
    common = (new + old) / np.maximum(new_mean + old_mean, 1e-12)
    gain = _gain(new, new_mean * common) + _gain(old, old_mean * common)
    length = int(lengths[np.where(likely, gain, -np.inf).argmax()])
    return length, float(1 / (1 + np.exp(-min(odds.max() + np.log(_CHANGES), 50))))


def _gain(failed: Floats, mean: Floats) -> Floats:
    """Say how much likelier counts are at their own rate than at the common one, in nats."""
    return np.asarray(
        failed * np.log(np.maximum(failed, 1e-12) / np.maximum(mean, 1e-12)) - failed + mean
    )


def _unrest(bad: Ints, expected: Floats, a_day: int) -> float:
    """Estimate how much the levels of days differ, by more than counting explains.

    Days are compared with the fourth one after, when little is left of what they have in common;
    the median of that is hardly moved by a lasting change.
    """
    days = len(bad) // a_day
    newest = len(bad) - days * a_day
    failed = bad[newest:].reshape(days, a_day).sum(axis=1)
    means = expected[newest:].reshape(days, a_day).sum(axis=1)
    logs, counting = np.log((failed + 0.5) / (means + 0.5)), 1 / (failed + 1)
    known = (means[4:] >= 5) & (means[:-4] >= 5)
    return _beyond((logs[4:] - logs[:-4])[known], (counting[4:] + counting[:-4])[known])


def _noise(bad: Ints, expected: Floats) -> float:
    """Estimate how much neighbouring steps differ, by more than counting explains."""
    logs, counting = np.log((bad + 0.5) / (expected + 0.5)), 1 / (bad + 1)
    known = (expected[1:] >= 5) & (expected[:-1] >= 5)
    return _beyond(np.diff(logs)[known], (counting[1:] + counting[:-1])[known])


def _beyond(apart: Floats, counting: Floats) -> float:
    """Take from differences of two what counting explains; a little of the usual is mixed in."""
    own = 0.0
    if apart.size:
        spread = (1.4826 * np.median(np.abs(apart))) ** 2
        own = max(0.0, float(spread - np.median(counting))) / 2
    return float(np.sqrt((apart.size * own + _FEW * _USUAL**2) / (apart.size + _FEW)))
