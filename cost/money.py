"""Exact money: whole pico-dollars.

A price book has at most six decimals, so a token and a GPU-nanosecond both cost a whole number
of pico-dollars or are rounded once, at the hour's bill. Everything after that is integer
arithmetic: sums do not depend on order, and a split adds up to what was split.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

PICO = 10**12
NS_PER_HOUR = 3_600 * 10**9

Pico = int


def per_million(price: Decimal) -> Pico:
    """Turn dollars per million tokens into pico-dollars per token."""
    return int(price * 10**6)


def per_hour(price: Decimal, ns: int) -> Pico:
    """Price `ns` nanoseconds at dollars per hour, rounded half to even."""
    amount = price * PICO * ns / NS_PER_HOUR
    return int(amount.to_integral_value(ROUND_HALF_EVEN))


def usd(amount: Pico) -> float:
    """Turn pico-dollars into the dollars shown to people and sent as JSON."""
    return amount / PICO
