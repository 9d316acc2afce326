"""How long a total outage must last to fire a tier, at a group's own rate. Pure.

The live rule is asked, with the windows of a group that sent steady good requests until they all
began to fail: whatever the guard, the short window and runs of failures make of it is in the
answer.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache

import numpy as np

from slo.burn import judge_many
from slo.evaluator import windows_of
from slo.guard import RUN_REACH, Tally
from slo.model import Slo
from slo.tiers import Tier

STEP = timedelta(seconds=10)
_POINTS = 400
_RATES_PER_DECADE = 20


def time_to_fire(slo: Slo, tier: Tier, per_s: float) -> timedelta | None:
    """Say how long everything must fail before the tier burns; None: not within its windows.

    Rates are rounded to a twentieth of a decade, so that many groups cost no more than few.
    """
    if per_s <= 0:
        return None
    decade = round(np.log10(per_s) * _RATES_PER_DECADE)
    windows = tuple(windows_of(slo))
    return _fired_after(tier, slo.objective, windows, slo.window, decade)


@lru_cache(maxsize=4096)
def _fired_after(
    tier: Tier, objective: float, windows: tuple[timedelta, ...], window: timedelta, decade: int
) -> timedelta | None:
    per_s = 10 ** (decade / _RATES_PER_DECADE)
    horizon = max(tier.long, min(RUN_REACH, window))
    seconds = np.unique(
        np.concatenate(
            (
                np.arange(1, _POINTS + 1) * STEP.total_seconds(),
                np.linspace(0, horizon.total_seconds(), _POINTS)[1:],
            )
        )
    )
    seconds = seconds[seconds <= horizon.total_seconds()]
    failed = np.floor(per_s * seconds).astype(np.int64)
    tallies = {}
    for each in windows:
        total = np.full(seconds.size, int(per_s * each.total_seconds()), np.int64)
        bad = np.floor(per_s * np.minimum(seconds, each.total_seconds())).astype(np.int64)
        tallies[each] = Tally(np.minimum(bad, total), total)
    fired = np.flatnonzero(judge_many(tier, objective, tallies, failed).burning)
    return timedelta(seconds=float(seconds[fired[0]])) if fired.size else None
