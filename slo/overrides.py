"""Other objectives for some groups of an SLO: what an override says, and which one holds. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slo.tiers import Tier

Group = tuple[str, ...]
"""The values of `group_by`, in its order; empty where nothing was seen."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Groups with these members: `match` names some, in the order of `group_by`, with values."""

    match: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        return ", ".join(
            f"{name}={'|'.join(value or '(unknown)' for value in values)}"
            for name, values in self.match
        )

    def covers(self, other: Matching) -> bool:
        """Say whether this one matches every group that the other matches."""
        meant = dict(other.match)
        return all(name in meant and set(meant[name]) <= set(values) for name, values in self.match)


@dataclass(frozen=True, slots=True)
class Override(Matching):
    """What holds for groups with these members, in place of what the SLO says.

    `objective` and `tiers` are complete; `states_objective` says whether the document writes the
    first or leaves it to the SLO. `labels` and `annotations` are added to the SLO's.
    """

    objective: float
    tiers: tuple[Tier, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    states_objective: bool = True


class Chooser:
    """Finds the override that holds for a group: the first that matches."""

    def __init__(self, group_by: Sequence[str], overrides: Sequence[Matching]) -> None:
        self._rest: list[tuple[tuple[int, frozenset[str]], ...]] = []
        # By place and value of an override's first member, so that few are looked at.
        self._first: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, override in enumerate(overrides):
            (name, values), *rest = override.match
            for value in dict.fromkeys(values):
                self._first[group_by.index(name)][value].append(number)
            self._rest.append(
                tuple((group_by.index(name), frozenset(values)) for name, values in rest)
            )

    def of(self, group: Group) -> int | None:
        """Return the number of the override, None where the SLO's own objective holds."""
        if not group:
            return None
        found: int | None = None
        for place, by_value in self._first.items():
            for number in by_value.get(group[place], ()):
                if found is not None and number > found:
                    break
                if all(group[at] in values for at, values in self._rest[number]):
                    found = number
                    break
        return found
