"""Two bad minutes in twenty, like a service that restarts on a timer: one page, not many."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np

from alerts.machine import step
from alerts.model import AlertState, Turn
from alerts.subject import subject_of
from slo.budget import Count
from slo.burn import judge
from slo.tiers import derive
from slo.verdict import State

MINUTE, MONTH = timedelta(minutes=1), timedelta(days=30)
START, DAY = datetime.fromisoformat("2026-01-01T00:00:00+00:00"), 1440
TOLD = {Turn.FIRED, Turn.RESOLVED, Turn.RAISED, Turn.LOWERED}


def test_two_bad_minutes_in_twenty_notify_no_more_than_every_half_hour(
    say: SimpleNamespace,
) -> None:
    objective, per_minute = 0.999, 60
    tiers = derive(objective, MONTH)
    at = np.arange(DAY + 360)
    bad = np.where((at >= DAY) & ((at - DAY) % 20 < 2), per_minute, 0)
    sums = np.concatenate(([0], np.cumsum(bad)))
    settings = say.settings(keep_firing_for=None)
    state, told, toggles, burned = AlertState(), [], 0, False

    for minute in range(DAY, DAY + 360):
        counts = {}
        for length in {MONTH, *(length for tier in tiers for length in (tier.long, tier.short))}:
            first = max(0, minute + 1 - length // MINUTE)
            failed = int(sums[minute + 1] - sums[first])
            counts[length] = Count((minute + 1 - first) * per_minute - failed, failed)
        judged = [judge(tier, counts, objective) for tier in tiers]
        fast = next(each for each in judged if each.name == "fast")
        toggles += fast.burning and not burned
        burned = fast.burning
        verdict = say.verdict(
            State.BURNING if any(each.burning for each in judged) else State.OK, tiers=judged
        )
        now = START + MINUTE * minute
        state, turns = step(
            state, subject_of(verdict, settings).reading, now, fingerprint="flapping"
        )
        told += [now for turn in turns if turn in TOLD]

    assert toggles == 18
    assert len(told) == 1
