"""What groups were charged and did in some time; cells of adjoining times add up. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from base.shares import split

Group = tuple[str, ...]
Bearer = Group | None
"""A group, or everybody whose requests are not asked about."""
Pool = str
"""GPUs whose idle time is borne together (of a model or replica); '' is priced by tokens."""


class Counted(NamedTuple):
    """Requests of one group by their start, with what was not known of some of them.

    `unmetered` ran or were answered and report no tokens. `unpriced` have no price. `unmeasured`
    reached no engine and report no tokens; `unseen` of those were answered all the same, so that
    they did cost something.
    """

    good: int = 0
    bad: int = 0
    excluded: int = 0
    tokens: int = 0
    tasks: int = 0
    unmetered: int = 0
    unseen: int = 0
    unpriced: int = 0
    unmeasured: int = 0

    @property
    def requests(self) -> int:
        return self.good + self.bad + self.excluded

    def plus(self, other: Counted) -> Counted:
        return Counted(*(mine + its for mine, its in zip(self, other, strict=True)))


NOTHING = Counted()


@dataclass(frozen=True, slots=True)
class Cell:
    """Dollars are pico-dollars. `unused` is what idle GPUs and overhead cost, by pool."""

    charged: dict[tuple[Bearer, Pool], int] = field(default_factory=dict)
    unused: dict[Pool, int] = field(default_factory=dict)
    counted: dict[Group, Counted] = field(default_factory=dict)

    def add(self, other: Cell) -> None:
        """Add another cell to this one."""
        for key, amount in other.charged.items():
            self.charged[key] = self.charged.get(key, 0) + amount
        for pool, amount in other.unused.items():
            self.unused[pool] = self.unused.get(pool, 0) + amount
        for group, counted in other.counted.items():
            known = self.counted.get(group)
            self.counted[group] = counted if known is None else known.plus(counted)

    def copy(self) -> Cell:
        return Cell(dict(self.charged), dict(self.unused), dict(self.counted))


def total(cells: Iterable[Cell]) -> Cell:
    out = Cell()
    for cell in cells:
        out.add(cell)
    return out


def spent_apart(cell: Cell) -> dict[Group, int]:
    """Say what each group was charged: idle GPUs and overhead are nobody's."""
    return {
        group: amount for group, amount in _by_bearer(cell.charged).items() if group is not None
    }


def spent_shared(cell: Cell, *, is_grouped: bool = True) -> dict[Group, int]:
    """Say what each group bears, idle GPUs and overhead included, so that all of it is the bill.

    A pool is split over those who used it, by what they were charged for it; a pool that nobody
    used over all who used any. Where nobody used a GPU it is borne by nobody, except in an SLO
    that is not grouped.
    """
    out = _by_bearer(cell.charged)
    by_pool: dict[Pool, dict[Bearer, int]] = defaultdict(dict)
    for (bearer, pool), amount in cell.charged.items():
        if pool and amount > 0:
            by_pool[pool][bearer] = amount
    rest = 0
    for pool, amount in sorted(cell.unused.items()):
        rest += _spread(amount, by_pool.get(pool, {}), out)
    everywhere = _by_bearer({key: amount for key, amount in cell.charged.items() if key[1]})
    rest = _spread(rest, {b: amount for b, amount in everywhere.items() if amount > 0}, out)
    if rest and not is_grouped:
        out[()] += rest
    return {group: amount for group, amount in out.items() if group is not None}


def _by_bearer(charged: Mapping[tuple[Bearer, Pool], int]) -> defaultdict[Bearer, int]:
    out: defaultdict[Bearer, int] = defaultdict(int)
    for (bearer, _), amount in charged.items():
        out[bearer] += amount
    return out


def _spread(amount: int, weights: dict[Bearer, int], out: dict[Bearer, int]) -> int:
    """Split an amount over bearers; returns what is left where there are none."""
    if not weights:
        return amount
    bearers = sorted(weights, key=lambda bearer: (bearer is None, bearer or ()))
    for bearer, part in zip(bearers, split(amount, [weights[b] for b in bearers]), strict=True):
        out[bearer] = out.get(bearer, 0) + part
    return 0
