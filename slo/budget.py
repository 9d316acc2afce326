"""Error budget arithmetic (SRE workbook, chapter 5). Pure.

An objective is a fraction, 0 < objective < 1. The budget is the share of requests that may be bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Count:
    """Judged requests of one window, or their weights: integers, so that any two sums agree."""

    good: int = 0
    bad: int = 0

    @property
    def total(self) -> int:
        return self.good + self.bad

    def __add__(self, other: Count) -> Count:
        return Count(self.good + other.good, self.bad + other.bad)


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests behind weighted counts; `heaviest` is the weight of the heaviest judged one.

    `squares` is the sum of their squared weights, which says how uneven they are. `unweighed`
    judged requests have no known weight and are in no sum of weights.
    """

    total: int = 0
    bad: int = 0
    heaviest: int = 0
    excluded: int = 0
    unweighed: int = 0
    squares: float = 0.0


def allowance(objective: float) -> float:
    """Share of requests that may be bad.

    Rounded where a double stops meaning anything: 1 - 0.95 is 0.05, not 0.050000000000000044.
    """
    return round(1 - objective, 12)


def sli(count: Count) -> float | None:
    """Share of good requests; None without traffic."""
    return count.good / count.total if count.total else None


def bad_share(count: Count) -> float | None:
    return count.bad / count.total if count.total else None


def budget_remaining(count: Count, objective: float) -> float | None:
    """1 is untouched, 0 is spent, negative is overspent; None without traffic."""
    share = bad_share(count)
    return None if share is None else 1 - share / allowance(objective)


def time_to_exhaustion(
    remaining: float | None, burn: float | None, window: timedelta
) -> timedelta | None:
    """How long what is left of a rolling budget lasts at the present burn.

    None where it is unknown, or where it will not run out: past one window, everything that was
    spent before has rolled out again.
    """
    if remaining is None or burn is None:
        return None
    if remaining <= 0:
        return timedelta(0)
    if burn <= 0 or remaining / burn > 1:
        return None
    return window * (remaining / burn)
