"""How long one engine step takes, from published measurements of real GPUs.

The table is splitwise-sim's (ISCA 2024): the time of a whole prompt by its length, and the time
of a decode step by batch size. Between the measured points we interpolate linearly; beyond the
last one we continue its slope.
"""

from __future__ import annotations

import csv
import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Self

from base.errors import ConfigError

DEFAULT_MODEL = "llama2-70b"
DEFAULT_HARDWARE = "h100-80gb"
DEFAULT_TENSOR_PARALLEL = 4


@dataclass(frozen=True, slots=True)
class Curve:
    """A piecewise linear function through measured points, x rising."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]

    @classmethod
    def through(cls, points: Mapping[float, float]) -> Self:
        xs = tuple(sorted(points))
        return cls(xs, tuple(points[x] for x in xs))

    def at(self, x: float) -> float:
        xs, ys = self.xs, self.ys
        right = min(max(bisect_right(xs, x), 1), len(xs) - 1)
        x0, y0 = xs[right - 1], ys[right - 1]
        return y0 + (x - x0) * (ys[right] - y0) / (xs[right] - x0)


@dataclass(frozen=True, slots=True)
class Timing:
    """Step times of one model on one kind of replica; `slowdown` 2 takes twice as long."""

    prompt_ms: Curve
    batch_ms: Curve
    slowdown: float = 1.0
    _decode_s: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def decode_s(self, batch: int) -> float:
        """Return the seconds of a step that makes one token for each of `batch` sequences."""
        known = self._decode_s.get(batch)
        if known is None:
            known = self.batch_ms.at(batch) * self.slowdown / 1000
            self._decode_s[batch] = known
        return known

    def mixed_s(self, chunks: Iterable[tuple[int, int]], decodes: int) -> float:
        """Return the seconds of a step that prefills `chunks` of (context before, new tokens).

        All new tokens pass through the weights together, so they cost what one prompt of their
        sum costs. A chunk behind a long context pays in addition for attending to it: what the
        measured curve bends upwards between the two lengths.
        """
        new = decodes
        attention = 0.0
        for context, count in chunks:
            new += count
            if context:
                whole, part = self.prompt_ms.at(context + count), self.prompt_ms.at(context)
                attention += max(0.0, whole - part - self.prompt_ms.at(count))
        ms = (self.prompt_ms.at(new) + attention) * self.slowdown
        return max(ms / 1000, self.decode_s(max(decodes, 1)))

    def slowed(self, factor: float) -> Timing:
        """Return the same replica at a different speed."""
        return replace(self, slowdown=self.slowdown * factor, _decode_s={})


def load_timing(
    model: str = DEFAULT_MODEL,
    hardware: str = DEFAULT_HARDWARE,
    tensor_parallel: int = DEFAULT_TENSOR_PARALLEL,
) -> Timing:
    """Read the bundled measurements of one model and hardware."""
    prompt: defaultdict[float, list[float]] = defaultdict(list)
    batch: defaultdict[float, list[float]] = defaultdict(list)
    known = set()
    for row in _rows():
        key = (row["model"], row["hardware"], int(row["tensor_parallel"]))
        known.add(key)
        if key != (model, hardware, tensor_parallel):
            continue
        batch[float(row["batch_size"])].append(float(row["token_time"]))
        if row["batch_size"] == "1":
            prompt[float(row["prompt_size"])].append(float(row["prompt_time"]))
    if not prompt:
        choices = "; ".join(f"{m} {h} TP{t}" for m, h, t in sorted(known))
        raise ConfigError(
            f"no timings for {model} on {hardware} TP{tensor_parallel}: choose from {choices}"
        )
    decode = _rising(batch)
    prompt[1.0] = [decode.ys[0]]  # prefilling one token is a decode step
    return Timing(_rising(prompt), decode)


def _rows() -> Iterable[dict[str, str]]:
    with (files("stack") / "data" / "splitwise_perf_model.csv").open(encoding="utf-8") as lines:
        yield from csv.DictReader(lines)


def _rising(samples: Mapping[float, Sequence[float]]) -> Curve:
    """Take medians and iron out noise: more work never takes less time."""
    points: dict[float, float] = {}
    floor = 0.0
    for x in sorted(samples):
        floor = max(floor, statistics.median(samples[x]))
        points[x] = floor
    return Curve.through(points)
