"""The price book: what a token and a GPU-hour cost, and since when.

The price that counts is the one in force on the request's own date, never today's. What the
book does not know has no price (None); it is shown as unpriced and never counted as free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TypeVar

from cost.money import Pico, per_million


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Dollars per million tokens of one model, from a date on.

    `provider` None means "whoever serves it". Without `cached_input`, cached tokens cost as much
    as fresh ones.
    """

    model: str
    since: date
    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    provider: str | None = None

    def price(self, prompt: int, cached: int, completion: int) -> Pico:
        """Price token counts; `prompt` includes `cached`, so each token is billed once."""
        cached = min(cached, prompt)
        cached_input = self.input if self.cached_input is None else self.cached_input
        return (
            (prompt - cached) * per_million(self.input)
            + cached * per_million(cached_input)
            + completion * per_million(self.output)
        )


@dataclass(frozen=True, slots=True)
class GpuPrice:
    """Dollars per hour of one GPU of a type, from a date on.

    `overhead_per_hour` comes on top: the share of gateways, routers, storage and people that
    every GPU-hour carries.
    """

    gpu_type: str
    since: date
    per_hour: Decimal
    overhead_per_hour: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs under a replica that does not report them itself (a bare vLLM)."""

    model: str
    since: date
    gpu_type: str
    gpu_count: int


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Every price ever in force; lookups pick the newest one that had begun."""

    name: str = ""
    tokens: tuple[TokenPrice, ...] = ()
    gpus: tuple[GpuPrice, ...] = ()
    hardware: tuple[Hardware, ...] = ()

    def token_price(self, model: str, on: date, provider: str | None = None) -> TokenPrice | None:
        """Find the token price of a model on a date.

        An unknown provider matches only where the model has one price whoever serves it: two
        providers with two prices are ambiguous, and an ambiguous price is no price.
        """
        begun = [p for p in self.tokens if p.model == model and p.since <= on]
        anyone = [p for p in begun if p.provider is None]
        if provider is not None:
            return _newest([p for p in begun if p.provider == provider] or anyone)
        if anyone or len({p.provider for p in begun}) > 1:
            return _newest(anyone)
        return _newest(begun)

    def gpu_price(self, gpu_type: str, on: date) -> GpuPrice | None:
        """Find the price of a GPU type on a date."""
        return _newest([p for p in self.gpus if p.gpu_type == gpu_type and p.since <= on])

    def hardware_of(self, model: str, on: date) -> Hardware | None:
        """Find what a model's replicas run on, for engines that do not say."""
        return _newest([h for h in self.hardware if h.model == model and h.since <= on])


_Dated = TypeVar("_Dated", TokenPrice, GpuPrice, Hardware)


def _newest(prices: Sequence[_Dated]) -> _Dated | None:
    return max(prices, key=lambda p: p.since, default=None)
