"""The `cost` section of tokenweir.yaml."""

from __future__ import annotations

from pathlib import Path

from base.settings import Section
from cost.pricefile import load_price_book
from cost.prices import PriceBook


class CostSettings(Section):
    """`prices` is the price book; without one, everything is shown as unpriced."""

    prices: Path | None = None

    def price_book(self) -> PriceBook:
        return load_price_book(self.prices) if self.prices else PriceBook()
