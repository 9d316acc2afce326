"""Which groups a rule is about: those of one override, or those that no override matches. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from slo.model import Slo
from slo.overrides import Override
from slo.prometheus.selector import Matcher, Selector


@dataclass(frozen=True, slots=True)
class Selection:
    """Series with all matchers of `wanted`, but those that have all matchers of one of `without`.

    Without an override in between, both are empty and every group is meant.
    """

    wanted: tuple[Matcher, ...] = ()
    without: tuple[tuple[Matcher, ...], ...] = ()

    def of(self, series: Selector) -> str:
        """Write the groups' series of a selector, so that it can stand where a selector can."""
        written = str(series.of(series.metric, *self.wanted))
        if not self.without:
            return written
        others = (str(series.of(series.metric, *each)) for each in self.without)
        return f"({' unless '.join((written, *others))})"


def selections(slo: Slo) -> list[Selection]:
    """Select the groups of each of `slo.variants`; every group is in one of them."""
    others = [_without((), slo.overrides)]
    for number, override in enumerate(slo.overrides):
        before = [each for each in slo.overrides[:number] if _overlap(each, override)]
        others.append(_without(_wanted(override), before))
    return others


def _without(wanted: tuple[Matcher, ...], overrides: Sequence[Override]) -> Selection:
    """Leave out what overrides match: by a matcher where that is of one member alone."""
    left_out: dict[str, list[str]] = defaultdict(list)
    several = []
    for override in overrides:
        if len(override.match) == 1:
            ((name, values),) = override.match
            left_out[name] += values
        else:
            several.append(_wanted(override))
    more = tuple(_one_of(name, values, equal="!=", like="!~") for name, values in left_out.items())
    return Selection((*wanted, *more), tuple(several))


def _wanted(override: Override) -> tuple[Matcher, ...]:
    return tuple(_one_of(name, values) for name, values in override.match)


def _one_of(name: str, values: Sequence[str], equal: str = "=", like: str = "=~") -> Matcher:
    distinct = list(dict.fromkeys(values))
    if len(distinct) == 1:
        return Matcher(name, equal, distinct[0])
    return Matcher(name, like, "|".join(map(re.escape, distinct)))


def _overlap(one: Override, other: Override) -> bool:
    """Say whether a group may match both."""
    meant = dict(other.match)
    return all(name not in meant or set(values) & set(meant[name]) for name, values in one.match)
