"""Which worker gets a request, and the reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Stage = Literal["prefix_hit", "prefix_miss", "missing_tokens", "load_imbalance"]


@dataclass(frozen=True, slots=True)
class Balance:
    """When a prefix is worth a longer queue.

    The worker that knows the prefix is passed over when its load is more than `absolute` requests
    *and* more than `relative` times above the least loaded one's.
    """

    least_match: float = 0.3
    absolute: int = 8
    relative: float = 1.3


@dataclass(frozen=True, slots=True)
class Option:
    """A worker that could take the request now."""

    name: str
    url: str
    load: int
    """Requests sent to it and not yet answered, counted here: never older than this decision."""
    tokens: int
    """Estimated prompt tokens of those requests."""
    last_used: int
    """A number that grows with each request sent to any worker; 0: never used."""
    matched: int
    """Leading blocks of this prompt it remembers."""


@dataclass(frozen=True, slots=True)
class Choice:
    option: Option
    stage: Stage
    reason: str


def choose(options: Sequence[Option], blocks: int, balance: Balance) -> Choice | None:
    """Pick a worker for a prompt of so many blocks; None when there is no option."""
    if not options:
        return None
    least = min(options, key=lambda o: (o.load, o.tokens, o.last_used))
    if blocks == 0:
        return Choice(least, "missing_tokens", f"{least.name}: no prefix, load {least.load}")
    best = max(options, key=lambda o: (o.matched, -o.load, -o.tokens))
    if best.matched < balance.least_match * blocks:
        return Choice(
            least,
            "prefix_miss",
            f"{least.name}: prefix {best.matched}/{blocks} known, load {least.load}",
        )
    gap = best.load - least.load
    if gap > balance.absolute and best.load > balance.relative * least.load:
        return Choice(
            least,
            "load_imbalance",
            f"{least.name}: load {least.load}, {best.name} knows the prefix but has {best.load}",
        )
    return Choice(
        best,
        "prefix_hit",
        f"{best.name}: prefix {best.matched}/{blocks}, load {best.load}, least {least.load}",
    )
