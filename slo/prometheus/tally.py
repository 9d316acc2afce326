"""Events per group and ten seconds, from increases and samples. Pure.

Two counters of one target may be scraped a moment apart from each other: a failure is seen before
the request that failed. Within a block of ten minutes such a part moves on to the next ten seconds
(or back, at the end) that have room for it. Where a block as a whole holds more of a part than of
the total, the two do not fit together, and nothing of it is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from base.durations import format_instant
from slo.prometheus.increases import Whole
from slo.prometheus.series import Times

BLOCK_MS = 600_000
BUCKET_MS = 10_000

Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    good: int
    bad: int


@dataclass(frozen=True, slots=True)
class Impossible:
    """A block, by the second it begins, in which more of a part was seen than of the total."""

    block: int
    group: Group
    total: int
    part: int

    def __str__(self) -> str:
        since = format_instant(datetime.fromtimestamp(self.block, UTC))
        of = f" of {', '.join(self.group)}" if any(self.group) else ""
        return (
            f"{self.part} of {self.total} events{of} in the ten minutes from {since}: a part is "
            "larger than its total, so none of them count"
        )


@dataclass(slots=True)
class Tally:
    """Adds up, in any order; `total` and `part` by group and the second a bucket begins."""

    total: dict[tuple[Group, int], int] = field(default_factory=lambda: defaultdict(int))
    part: dict[tuple[Group, int], int] = field(default_factory=lambda: defaultdict(int))

    def add_total(self, group: Group, at: Times, counts: Whole) -> None:
        _add(self.total, group, at, counts)

    def add_part(self, group: Group, at: Times, counts: Whole) -> None:
        _add(self.part, group, at, counts)

    def judge(
        self, *, part_is_good: bool
    ) -> tuple[dict[tuple[Group, int], Judged], list[Impossible]]:
        """Settle every block and say what was good and bad in each bucket that has events."""
        judged: dict[tuple[Group, int], Judged] = {}
        impossible: list[Impossible] = []
        for (group, block), buckets in _blocks(self.total, self.part).items():
            total = [self.total.get((group, at), 0) for at in buckets]
            part = [self.part.get((group, at), 0) for at in buckets]
            settled = settle(total, part)
            if settled is None:
                impossible.append(Impossible(block, group, sum(total), sum(part)))
                continue
            for at, whole, one in zip(buckets, total, settled, strict=True):
                if whole:
                    other = whole - one
                    found = Judged(one, other) if part_is_good else Judged(other, one)
                    judged[group, at] = found
        return judged, impossible


def settle(total: Iterable[int], part: Iterable[int]) -> list[int] | None:
    """Fit a part into its total, later rather than earlier; None if it is larger in all."""
    room, left, out = [], 0, []
    for whole, one in zip(total, part, strict=True):
        taken = min(whole, one + left)
        left += one - taken
        out.append(taken)
        room.append(whole - taken)
    for index in range(len(out) - 1, -1, -1):
        taken = min(room[index], left)
        out[index] += taken
        left -= taken
    return None if left else out


def _add(to: dict[tuple[Group, int], int], group: Group, at: Times, counts: Whole) -> None:
    has = counts > 0
    if not has.any():
        return
    seconds = at[has] // BUCKET_MS * (BUCKET_MS // 1000)
    buckets, which = np.unique(seconds, return_inverse=True)
    sums = np.zeros(len(buckets), np.int64)
    np.add.at(sums, which, counts[has])
    for bucket, count in zip(buckets.tolist(), sums.tolist(), strict=True):
        to[group, bucket] += count


def _blocks(
    *tallies: Mapping[tuple[Group, int], int],
) -> dict[tuple[Group, int], list[int]]:
    found: dict[tuple[Group, int], set[int]] = defaultdict(set)
    size = BLOCK_MS // 1000
    for tally in tallies:
        for group, at in tally:
            found[group, at // size * size].add(at)
    return {key: sorted(buckets) for key, buckets in found.items()}
