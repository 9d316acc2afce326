"""Burn rates by window, and the tiers that watch them. Pure.

`judge_many` holds one tier against many groups, or many instants, at once; `judge` against one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from base.durations import format_duration
from slo.budget import Count, allowance, bad_share
from slo.guard import (
    SPARSE_PER_HOUR,
    Flags,
    Floats,
    Ints,
    Tally,
    evidence,
    needed,
    newest,
    requests_per_hour,
    told_by,
)
from slo.tiers import Tier
from slo.verdict import TierVerdict

NO_COUNT = Count()


@dataclass(frozen=True, slots=True)
class Judged:
    """One tier against many groups or instants; a burn of NaN is no traffic.

    Where `known` is false too little was heard to tell: the tier may neither fire nor resolve.
    """

    burning: Flags
    known: Flags
    long_burn: Floats
    short_burn: Floats


def burn_rate(count: Count, objective: float) -> float | None:
    """How many times faster than allowed the budget is being spent.

    None means "no traffic": callers decide what silence means.
    """
    share = bad_share(count)
    return None if share is None else share / allowance(objective)


def burn_by_window(counts: Mapping[timedelta, Count], objective: float) -> dict[str, float | None]:
    """Burn of every counted window, shortest first, keyed as people write it."""
    return {
        format_duration(window): burn_rate(counts[window], objective) for window in sorted(counts)
    }


def judge_many(
    tier: Tier,
    objective: float,
    windows: Mapping[timedelta, Tally],
    run: Ints,
    heard: Mapping[timedelta, float | Floats] | None = None,
) -> Judged:
    """Hold a tier against all windows of its SLO (`slo.evaluator.windows_of`).

    It burns when the long window says that it matters, the short one that it goes on, and the long
    one holds `min_bad` bad requests and more than bad luck explains (`slo.guard`). A sparse group
    is asked for its newest requests in place of a short window that holds hardly any; and `run`,
    bad requests since its last good one, burns by itself while the long window has traffic. Where
    requests are weighed, it also does in a group that is not sparse, if nothing in the long window
    has a weight: failures often have no tokens.

    `heard` is the share of a window in which its source was heard, where that is too little. What
    was missed is then taken as all good (does it burn even so?) and as all bad (may it burn?).
    """
    heard = heard or {}
    long = windows[tier.long]
    per_hour = requests_per_hour(windows, tier.long)
    sparse = per_hour <= SPARSE_PER_HOUR
    recent, recent_heard = newest(windows, tier.short, tier.long, sparse, heard)
    long_heard = np.full(long.total.shape, heard.get(tier.long, 1.0))
    enough = needed(per_hour)

    told = (long.bad_requests >= tier.min_bad) & (told_by(long, objective) >= enough)
    in_a_row = (
        (sparse | (long.total == 0))  # all that came since the good ones weighs nothing
        & (long.requests > 0)
        & (run >= tier.min_bad)
        & (evidence(run, run, objective) >= enough)
    )
    threshold = tier.factor
    burning = in_a_row | (
        told
        & (_least(long, long_heard, objective) >= threshold)
        & (_least(recent, recent_heard, objective) >= threshold)
    )
    possible = (
        (told | (long_heard < 1))
        & (_most(long, long_heard, objective) >= threshold)
        & (_most(recent, recent_heard, objective) >= threshold)
    )
    return Judged(burning, burning | ~possible, _burn(long, objective), _burn(recent, objective))


def judge(
    tier: Tier,
    counts: Mapping[timedelta, Count],
    objective: float,
    *,
    run: int = 0,
    heard: Mapping[timedelta, float | Floats] | None = None,
) -> TierVerdict:
    """Hold a tier against one group at one instant; a window that is not counted is empty."""
    complete = {tier.long: NO_COUNT, tier.short: NO_COUNT, **counts}
    windows = {
        length: Tally(np.array([count.bad]), np.array([count.total]))
        for length, count in complete.items()
    }
    return verdicts_of(tier, judge_many(tier, objective, windows, np.array([run]), heard))[0]


def verdicts_of(tier: Tier, judged: Judged) -> list[TierVerdict]:
    """Write down what was judged, one verdict for each entry."""
    rows = zip(
        judged.burning.tolist(),
        judged.known.tolist(),
        judged.long_burn.tolist(),
        judged.short_burn.tolist(),
        strict=True,
    )
    return [
        TierVerdict(
            name=tier.name,
            severity=tier.severity,
            factor=tier.factor,
            long=tier.long,
            short=tier.short,
            long_burn=_known(long_burn),
            short_burn=_known(short_burn),
            burning=burning,
            known=known,
            hold=tier.hold,
        )
        for burning, known, long_burn, short_burn in rows
    ]


def _burn(tally: Tally, objective: float) -> Floats:
    share = np.full(tally.total.shape, np.nan)
    np.divide(tally.bad, tally.total, out=share, where=tally.total > 0)
    return np.asarray(share / allowance(objective), np.float64)


def _least(tally: Tally, heard: Floats, objective: float) -> Floats:
    """Burn if all that was missed was good; 0 without traffic."""
    return np.asarray(np.nan_to_num(_burn(tally, objective)) * heard, np.float64)


def _most(tally: Tally, heard: Floats, objective: float) -> Floats:
    """Burn if all that was missed was bad."""
    burn = np.nan_to_num(_burn(tally, objective))
    missed = (1 - heard) / allowance(objective)
    return np.asarray(burn * heard + missed, np.float64)


def _known(burn: float) -> float | None:
    return None if np.isnan(burn) else burn
