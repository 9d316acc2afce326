"""Our own refusals count against the budget, as they should; they must not drive the loop.

A shed request is a bad one in most SLOs. Read naively, shedding would keep the burn rate up,
which would keep the shed on, for as long as anyone asks. So burn rates are judged here without
the requests that were shed, from the growth of the verdict's own counts; what people see and what
pages them stays untouched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from base.labels import fingerprint
from slo.verdict import TierVerdict, Verdict

_REACH = timedelta(hours=6)
_REASON = "shed"


@dataclass(frozen=True, slots=True)
class Totals:
    """A verdict's counts at one instant."""

    at: datetime
    good: int
    bad: int
    shed: int


class OwnSheds:
    """Remembers each verdict's counts, to know how they grew over a tier's windows."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[Totals]] = {}

    def discount(self, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
        """Return the verdicts as they would be had the shed requests never come."""
        return tuple(self._discounted(v) for v in verdicts)

    def _discounted(self, verdict: Verdict) -> Verdict:
        key = f"{verdict.slo}/{fingerprint(verdict.group)}"
        seen = self._seen.setdefault(key, deque())
        now = Totals(
            verdict.at, verdict.good, verdict.bad, int(verdict.bad_reasons.get(_REASON, 0))
        )
        while seen and (seen[0].at < now.at - _REACH or seen[-1].at > now.at):
            seen.popleft()  # too old, or time was set back
        if not seen or seen[-1].at < now.at:
            seen.append(now)
        if now.shed == 0:
            return verdict
        tiers = tuple(_tier_without(tier, seen, now) for tier in verdict.tiers)
        return replace(verdict, tiers=tiers)


def _tier_without(tier: TierVerdict, seen: Sequence[Totals], now: Totals) -> TierVerdict:
    long = _scaled(tier.long_burn, seen, now, tier.long)
    short = _scaled(tier.short_burn, seen, now, tier.short)
    burning = (
        tier.burning
        and long is not None
        and short is not None
        and long >= tier.factor
        and short >= tier.factor
    )
    return replace(tier, long_burn=long, short_burn=short, burning=burning)


def _scaled(
    burn: float | None, seen: Sequence[Totals], now: Totals, window: timedelta
) -> float | None:
    if burn is None:
        return None
    then = next((t for t in reversed(seen) if t.at <= now.at - window), seen[0])
    return burn * remaining_part(then, now)


def remaining_part(then: Totals, now: Totals) -> float:
    """Return which part of the bad fraction is left without sheds, between 0 and 1.

    Counts are of a sliding budget window; where they shrink nothing can be said, so nothing is
    taken off.
    """
    good, bad, shed = now.good - then.good, now.bad - then.bad, now.shed - then.shed
    if shed <= 0 or bad <= 0 or good < 0:
        return 1.0
    shed = min(shed, bad)
    judged = good + bad
    if judged == shed:
        return 0.0
    return ((bad - shed) / (judged - shed)) / (bad / judged)
