"""Burn rates by window, and the tiers that watch them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from base.durations import format_duration
from slo.budget import Count, allowance, bad_share
from slo.tiers import Tier
from slo.verdict import TierVerdict

NO_COUNT = Count()


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


def judge(tier: Tier, counts: Mapping[timedelta, Count], objective: float) -> TierVerdict:
    """Hold a tier against its two windows.

    The long window says that it matters, the short one that it goes on, and `min_bad` that a
    handful of unlucky requests of a quiet tenant is not an incident.
    """
    long, short = counts.get(tier.long, NO_COUNT), counts.get(tier.short, NO_COUNT)
    long_burn, short_burn = burn_rate(long, objective), burn_rate(short, objective)
    burning = (
        long_burn is not None
        and short_burn is not None
        and long_burn >= tier.factor
        and short_burn >= tier.factor
        and long.bad >= tier.min_bad
    )
    return TierVerdict(
        name=tier.name,
        severity=tier.severity,
        factor=tier.factor,
        long=tier.long,
        short=tier.short,
        long_burn=long_burn,
        short_burn=short_burn,
        burning=burning,
    )
