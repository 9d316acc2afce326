"""Splits of whole amounts that lose nothing."""

from __future__ import annotations

from collections.abc import Sequence


def split(amount: int, weights: Sequence[int]) -> list[int]:
    """Split a whole amount in proportion to weights, to the last unit.

    Each share is the difference of two rounded running totals, so the shares always add up to
    `amount` and each is within one unit of its exact value. With no weight at all every share is 0:
    the caller keeps the amount.
    """
    total = sum(weights)
    if total == 0:
        return [0] * len(weights)
    shares = []
    running = given = 0
    for weight in weights:
        running += weight
        reached = amount * running // total
        shares.append(reached - given)
        given = reached
    return shares
