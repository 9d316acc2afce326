"""The ledger over time: dollars per step and group, with idle and overhead beside them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

import pandas as pd

from cost.ledger import Hour, Ledger
from cost.money import PICO
from cost.read import Window

MOST_GROUPS = 6


def spend_frame(ledger: Ledger, window: Window, by: Sequence[str]) -> pd.DataFrame:
    """Write dollars per hour for each step; the largest groups by name, the rest as "other".

    Columns are groups, then "other", "overhead", "idle" where there is any; the index is the
    step's start. A step that the window cuts is divided by the part inside.
    """
    size = step_hours(window)
    sums: dict[str, dict[Hour, int]] = defaultdict(lambda: defaultdict(int))
    largest = sorted(ledger.accounts.items(), key=lambda item: (-item[1].total, item[0]))
    names = {key: _name(key, by) for key, account in largest[:MOST_GROUPS] if account.total}
    for (hour, key), amount in ledger.charges.items():
        sums[names.get(key, "other")][hour // size * size] += amount
    for bill in ledger.bills.values():
        sums["overhead"][bill.hour // size * size] += bill.overhead
        sums["idle"][bill.hour // size * size] += bill.idle
    start, end = window.start.timestamp() / 3600, window.end.timestamp() / 3600
    steps = range(int(start) // size * size, math.ceil(end), size)
    inside = {step: min(step + size, end) - max(step, start) for step in steps}
    columns = {
        name: [sums[name].get(step, 0) / PICO / inside[step] for step in steps]
        for name in (*names.values(), "other", "overhead", "idle")
        if any(sums[name].values())
    }
    index = pd.to_datetime([step * 3600 for step in steps], unit="s", utc=True)
    return pd.DataFrame(columns, index=index)


def step_hours(window: Window) -> int:
    """Pick steps of whole hours, about 150 at most: an hour is the ledger's own grain."""
    hours = (window.end - window.start) / timedelta(hours=1)
    return next((size for size in (1, 2, 3, 6, 12) if hours / size <= 170), 24)


def _name(key: tuple[str, ...], by: Sequence[str]) -> str:
    words = [value or f"no {name}" for name, value in zip(by, key, strict=True)]
    return " · ".join(word.removeprefix("/v1/") for word in words)
