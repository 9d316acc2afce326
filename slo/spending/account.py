"""One group's spending in one window against what it may spend. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from slo.spending.cell import NOTHING, Cell, Counted, Group, spent_apart, spent_shared
from slo.spending.model import CostSlo, Idle, Per, usd
from slo.tiers import Tier
from slo.verdict import Spend, TierVerdict

MILLION = 10**6


@dataclass(frozen=True, slots=True)
class Account:
    """What a group spent and did since an instant; `spent` and `allowed` are pico-dollars.

    Where something was spent and nothing came of it, one unit is allowed (one token of a million):
    so a burn is always a number, and a very high one where all failed.
    """

    since: datetime
    spent: int
    allowed: int
    units: float
    counted: Counted

    @property
    def is_known(self) -> bool:
        """Whether anything that was spent has a price: 0 dollars of unpriced requests are not 0."""
        return self.spent > 0 or not self.counted.unpriced

    @property
    def burn(self) -> float | None:
        """How many times what it may a group spends; None where it did nothing, or is unknown."""
        if not self.is_known or not (self.spent or self.units):
            return None
        return self.spent / self.allowed

    @property
    def unpriced_share(self) -> float:
        requests = max(self.counted.requests, self.counted.unpriced)
        return self.counted.unpriced / requests if requests else 0.0

    def spend(self) -> Spend:
        """Write it in dollars; what is spent is unknown where nothing of it has a price."""
        return Spend(
            since=self.since,
            spent_usd=usd(self.spent) if self.is_known else None,
            allowed_usd=usd(self.allowed),
            units=self.units,
            usd_per_unit=usd(self.spent) / self.units if self.units and self.is_known else None,
        )


def accounts(slo: CostSlo, since: datetime, cell: Cell) -> dict[Group, Account]:
    """Draw up the account of every group seen in a window."""
    spent = (
        spent_shared(cell, is_grouped=bool(slo.group_by))
        if slo.idle is Idle.SHARED
        else spent_apart(cell)
    )
    return {
        group: account(
            slo.for_group(group), since, spent.get(group, 0), cell.counted.get(group, NOTHING)
        )
        for group in sorted({*spent, *cell.counted})
    }


def account(slo: CostSlo, since: datetime, spent: int, counted: Counted) -> Account:
    match slo.per:
        case Per.MILLION_TOKENS:
            allowed = slo.at_most * max(counted.tokens, 1) // MILLION
            return Account(since, spent, max(allowed, 1), counted.tokens / MILLION, counted)
        case Per.TASK:
            units = counted.tasks
        case Per.GOOD_REQUEST:
            units = counted.good
        case Per.REQUEST:
            units = counted.requests
    return Account(since, spent, slo.at_most * max(units, 1), units, counted)


def budget_left(whole: Account) -> float | None:
    """1 is untouched, 0 is spent, negative is overspent; None without spending or unknown."""
    burn = whole.burn
    return None if burn is None else 1 - burn


def lasts(left: float | None, burn: float | None, window: timedelta) -> timedelta | None:
    """How long what is left of a rolling allowance lasts, with traffic as now at the present burn.

    The mean burn of the window, 1 - left, moves towards the present one and reaches 1 on the way;
    None where it will not.
    """
    if left is None or burn is None:
        return None
    if left <= 0:
        return timedelta(0)
    share = left / (burn - (1 - left)) if burn > 1 else 2.0
    return window * share if share <= 1 else None


def judge_tier(
    slo: CostSlo,
    tier: Tier,
    found: Mapping[timedelta, Account],
    heard: Mapping[timedelta, float],
    floor: float,
) -> TierVerdict:
    """Hold a tier against a group's accounts by window; a window without one saw nothing.

    It burns when both windows burn at its factor and the long one overspent by `min_overspend`.
    `heard` names the share of a window in which its source was heard, where that is too little:
    what was missed may have been free. Where a tier does not burn, it is known not to only if its
    windows were heard, and enough of their requests (`floor`) have a price and, where tokens are
    the unit, a count of them.
    """
    long, short = found.get(tier.long), found.get(tier.short)
    burning = (
        long is not None
        and long.spent - long.allowed >= slo.min_overspend
        and _least(long, heard.get(tier.long, 1.0)) >= tier.factor
        and _least(short, heard.get(tier.short, 1.0)) >= tier.factor
    )
    unheard = tier.long in heard or tier.short in heard
    unsure = any(_is_unsure(slo, each, floor) for each in (long, short) if each is not None)
    if unsure and slo.per is Per.MILLION_TOKENS and _is_unmetered(long, floor):
        burning = False  # fewer tokens are known than there were: it may be less dear than it seems
    return TierVerdict(
        name=tier.name,
        severity=tier.severity,
        factor=tier.factor,
        long=tier.long,
        short=tier.short,
        long_burn=None if long is None else long.burn,
        short_burn=None if short is None else short.burn,
        burning=burning,
        known=burning or not (unheard or unsure),
        hold=tier.hold,
    )


def doubts(slo: CostSlo, whole: Account) -> str | None:
    """Say what is not known of a group's spending, in words."""
    counted = whole.counted
    requests = f"of {max(counted.requests, counted.unpriced):,} requests"
    said = []
    if counted.unpriced:
        said.append(
            f"{counted.unpriced:,} {requests} have no price: add their model or GPU to the price "
            "book (cost.prices); spending is at least what is shown"
            if whole.is_known
            else f"none of its spending is known: {counted.unpriced:,} {requests} have no price; "
            "add their model or GPU to the price book (cost.prices)"
        )
    if counted.unseen:
        said.append(
            f"{counted.unseen:,} {requests} were answered and report neither tokens nor engine "
            "time: what they cost is missing"
        )
    if slo.per is Per.MILLION_TOKENS and counted.unmetered:
        said.append(f"{counted.unmetered:,} {requests} report no tokens: more tokens came of it")
    return "; ".join(said) or None


def _least(account: Account | None, heard: float) -> float:
    burn = None if account is None else account.burn
    return 0.0 if burn is None else burn * heard


def _is_unsure(slo: CostSlo, account: Account, floor: float) -> bool:
    if slo.per is Per.MILLION_TOKENS and _is_unmetered(account, floor):
        return True
    return 1 - account.unpriced_share < floor


def _is_unmetered(account: Account | None, floor: float) -> bool:
    if account is None or not account.counted.requests:
        return False
    return 1 - account.counted.unmetered / account.counted.requests < floor
