"""The bundled slices of public traces: when requests came and how long they were."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Literal

Source = Literal["conv", "code"]

BINS_PER_DAY = 96
_SUNDAY_FIRST = (1, 2, 3, 2, 1, 0, 0)  # which of the four measured days stands for Monday, …


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a trace, `at_s` after its first; `prefix` names 512-token prompt blocks."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    prefix: tuple[int, ...] = ()


@cache
def azure2023(source: Source) -> tuple[Arrival, ...]:
    """Read the first requests of Azure's 2023 conversation or coding trace."""
    arrivals = []
    start: datetime | None = None
    for row in _csv(f"azure2023_{source}.csv"):
        at = datetime.fromisoformat(row["TIMESTAMP"][:26] + "+00:00")
        start = start or at
        arrivals.append(
            Arrival(
                (at - start).total_seconds(),
                max(1, int(row["ContextTokens"])),
                max(1, int(row["GeneratedTokens"])),
            )
        )
    return tuple(arrivals)


@cache
def mooncake() -> tuple[Arrival, ...]:
    """Read the first requests of the Kimi conversation trace, with their prefix blocks."""
    arrivals = []
    text = (files("stack") / "data" / "mooncake_conversation.jsonl").read_text(encoding="utf-8")
    for line in text.splitlines():
        row = json.loads(line)
        arrivals.append(
            Arrival(
                row["timestamp"] / 1000,
                max(1, row["input_length"]),
                max(1, row["output_length"]),
                tuple(row["hash_ids"]),
            )
        )
    return tuple(arrivals)


def weekly_shape(weekday: int, quarter: int) -> float:
    """Return Azure's 2024 conversation rate (requests a minute) in a quarter hour of a weekday.

    `weekday` 0 is Monday. Four days were measured, Sunday to Wednesday; they stand for the week.
    """
    return _azure2024()[_SUNDAY_FIRST[weekday] * BINS_PER_DAY + quarter]


@cache
def _azure2024() -> tuple[float, ...]:
    return tuple(float(row["requests_per_minute"]) for row in _csv("azure2024_conv_15min.csv"))


def _csv(name: str) -> Iterator[dict[str, str]]:
    with (files("stack") / "data" / name).open(encoding="utf-8") as lines:
        yield from csv.DictReader(lines)
