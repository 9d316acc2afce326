"""Parts of a whole as percentages that add up to 100."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """`percent` is whole; `part` is exact, 0..1. A part of under one percent may have 0."""

    name: str
    count: float
    part: float
    percent: int

    @property
    def text(self) -> str:
        return f"{self.percent} %" if self.percent or not self.count else "<1 %"


def shares(counts: Mapping[str, float], most: int) -> list[Share]:
    """Order by size, the largest first; past `most`, what is left is one share of "n others".

    Rounded down, and what is missing then goes where most was cut off (largest remainder).
    """
    ordered = sorted(
        ((name, n) for name, n in counts.items() if n > 0), key=lambda item: (-item[1], item[0])
    )
    if len(ordered) > most:
        rest = ordered[most - 1 :]
        ordered = [*ordered[: most - 1], (f"{len(rest)} others", sum(n for _, n in rest))]
    whole = sum(n for _, n in ordered)
    exact = [n / whole * 100 for _, n in ordered]
    percents = [int(each) for each in exact]
    missing = 100 - sum(percents) if ordered else 0
    cut_off = sorted(range(len(exact)), key=lambda i: (percents[i] - exact[i], i))
    for place in cut_off[:missing]:
        percents[place] += 1
    return [
        Share(name, n, n / whole, percent)
        for (name, n), percent in zip(ordered, percents, strict=True)
    ]
