"""Whether a counter that is seen for the first time was born, or only not looked at before.

A counter that appears with the value 50 counts 50 events if its target was already being scraped:
it was not there at the scrape before, so all of it happened since. If the target itself is new,
the 50 may be years old, unless the process says that it has just started. What gives evidence:

1. another series of the same `job` and `instance` within the hour before,
2. `up` of that target at 1 within five minutes before,
3. the counter's `_created`, or the target's `process_start_time_seconds`, within five minutes.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slo.prometheus.client import Asks
from slo.prometheus.fetch import target_of
from slo.prometheus.increases import FORGET_MS, Last
from slo.prometheus.selector import Selector
from slo.prometheus.series import Identity, Series, Times, read_series

RECENT_MS = 300_000
_TARGETS_AT_ONCE = 50

Target = tuple[str, str]


@dataclass(slots=True)
class Births:
    """Decides for one read; asks the server once, and only where siblings do not tell."""

    asks: Asks
    created: Selector | None
    siblings: Sequence[Mapping[Identity, Series]]
    before: Sequence[Mapping[Identity, Last]]
    _scraped: dict[Target, list[Times]] | None = None
    _heard: dict[Target, Times] = field(default_factory=dict)
    _up: dict[Target, Series] | None = None
    _started: dict[Target, Series] = field(default_factory=dict)
    _created: dict[Identity, Series] | None = None

    def born(self, key: Identity, at: int) -> bool:
        target = target_of(key)
        times = self._times(target)
        index = int(np.searchsorted(times, at)) - 1
        if index >= 0 and at - int(times[index]) <= FORGET_MS:
            return True
        if self._was_up(target, at) or _is_recent(self._started.get(target), at):
            return True
        if self._created is None:
            self._created = {} if self.created is None else self._ask(str(self.created))
        return _is_recent(self._created.get(key), at)

    def _times(self, target: Target) -> Times:
        """List when anything of a target was scraped."""
        if self._scraped is None:
            self._scraped = defaultdict(list)
            for found, known in zip(self.siblings, self.before, strict=True):
                for key, series in found.items():
                    self._scraped[target_of(key)].append(series.at)
                for key, last in known.items():
                    self._scraped[target_of(key)].append(np.array([last.at], np.int64))
        if target not in self._heard:
            self._heard[target] = np.unique(np.concatenate(self._scraped[target]))
        return self._heard[target]

    def _was_up(self, target: Target, at: int) -> bool:
        if not target[1]:
            return False
        if self._up is None:
            self._ask_for_targets()
        series = (self._up or {}).get(target)
        if series is None:
            return False
        inside = (series.at < at) & (series.at >= at - RECENT_MS)
        return bool((series.values[0][inside] == 1).any())

    def _ask_for_targets(self) -> None:
        """Ask for `up` and start of every target that has a first sample, a few at a time."""
        self._up = {}
        targets = sorted({target_of(key) for key in self._newcomers() if target_of(key)[1]})
        for first in range(0, len(targets), _TARGETS_AT_ONCE):
            some = targets[first : first + _TARGETS_AT_ONCE]
            matchers = ",".join(
                f"{label}=~{json.dumps(_one_of(target[index] for target in some))}"
                for index, label in enumerate(("job", "instance"))
            )
            for name, to in (("up", self._up), ("process_start_time_seconds", self._started)):
                for key, series in self._ask(f"{name}{{{matchers}}}").items():
                    to[target_of(key)] = series

    def _ask(self, selector: str) -> dict[Identity, Series]:
        firsts = list(self._newcomers().values())
        start, end = min(firsts) - RECENT_MS, max(firsts) + 1
        return read_series(self.asks.samples(selector, start, end), start, end)

    def _newcomers(self) -> dict[Identity, int]:
        return {
            key: int(series.at[0])
            for found, known in zip(self.siblings, self.before, strict=True)
            for key, series in found.items()
            if key not in known and series.at.size
        }


def created_of(selector: Selector, *, drop: str = "_total") -> Selector:
    """Name the series that say when these counters were created (OpenMetrics)."""
    return selector.of(selector.metric.removesuffix(drop) + "_created")


def _is_recent(series: Series | None, at: int) -> bool:
    """Say whether a start, in seconds, lies shortly before `at`."""
    if series is None:
        return False
    index = int(np.searchsorted(series.at, at, side="right")) - 1
    started = float(series.values[0][max(index, 0)]) * 1000
    return at - RECENT_MS <= started <= at


def _one_of(values: Iterable[str]) -> str:
    return "|".join(re.escape(value) for value in sorted(set(values)))
