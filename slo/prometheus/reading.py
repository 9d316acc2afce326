"""One SLO over one stretch of time: what happened in it, and what the next stretch must know."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from slo.model import Slo
from slo.prometheus.births import Births, created_of
from slo.prometheus.client import Asks, TooMuch
from slo.prometheus.fetch import Fetched, Fetcher
from slo.prometheus.increases import FORGET_MS, Last, increases, last_of
from slo.prometheus.queries import add_answers
from slo.prometheus.selector import Matcher, Selector
from slo.prometheus.series import Identity, Series, Times, identity
from slo.prometheus.sli import Counters, Events, Gauge, Histogram, Queries
from slo.prometheus.tally import BLOCK_MS, Group, Impossible, Judged, Tally

DAY_MS = 86_400_000
SILENT_MS = 300_000
"""Between samples so near each other a target was alive: Prometheus' own limit."""

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Memory:
    """What was last known before `at`; counters are remembered for a day."""

    at: int
    total: Mapping[Identity, Last] = field(default_factory=dict)
    part: Mapping[Identity, Last] = field(default_factory=dict)
    heard: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What happened in [start, end), milliseconds; buckets and minutes by the second they begin.

    `minutes` are those in which the source was alive, with its first and newest sample.
    """

    start: int
    end: int
    judged: Mapping[tuple[Group, int], Judged]
    minutes: Mapping[int, tuple[int, int]]
    impossible: tuple[Impossible, ...]
    unknown: int
    notes: tuple[str, ...]
    memory: Memory


class Reader:
    """Reads one SLO. It keeps nothing that would change an answer."""

    def __init__(self, slo: Slo, asks: Asks, replica_labels: tuple[str, ...] = ()) -> None:
        if slo.prometheus is None:
            raise ValueError(f"slo {slo.name!r} is not from Prometheus")
        self._group_by = slo.group_by
        self._events: Events = slo.prometheus.events
        self._asks = asks
        self._replica_labels = replica_labels
        self._fetcher = Fetcher(asks, replica_labels)

    def remember(self, at: int) -> Memory:
        """Learn what was known before `at`: samples of the hour, and which counters of the day."""
        if isinstance(self._events, Queries):
            return Memory(at)
        fetched = self._fetcher.fetch(self._events, at - FORGET_MS, at)
        older = Memory(at, self._older(0, at), self._older(1, at))
        return _remembered(older, fetched, at)

    def read(self, memory: Memory, start: int, end: int, keep: int) -> Reading:
        """Read [start, end), given what was known before `start`; remember what is before `keep`.

        `start` and `keep` are edges of blocks.
        """
        tally = Tally()
        notes: tuple[str, ...] = ()
        if isinstance(self._events, Queries):
            heard, unknown = add_answers(
                self._asks, self._events, self._group_by, tally, start, end
            )
            after = Memory(keep, heard=_newest(heard, memory.heard, keep))
        else:
            fetched = self._fetcher.fetch(self._events, start, end)
            unknown = self._add(tally, fetched, memory)
            heard = _times(fetched.total)
            after, notes = _remembered(memory, fetched, keep), fetched.notes
        judged, impossible = tally.judge(part_is_good=_part_is_good(self._events))
        blocked = {each.block * 1000 for each in impossible}
        return Reading(
            start=start,
            end=end,
            judged=judged,
            minutes=_alive(heard, memory.heard, blocked),
            impossible=tuple(impossible),
            unknown=unknown,
            notes=notes,
            memory=after,
        )

    def _add(self, tally: Tally, fetched: Fetched, memory: Memory) -> int:
        """Add what counters rose by, or each sample of a gauge; return what was not counted."""
        if isinstance(self._events, Gauge):
            for key, series in fetched.total.items():
                group, ones = self._group(key), np.ones(series.at.size, np.int64)
                tally.add_total(group, series.at, ones)
                tally.add_part(group, series.at, (series.values[0] != 0).astype(np.int64))
            return 0
        births = Births(
            self._asks,
            _created(self._events),
            (fetched.total, fetched.part),
            (memory.total, memory.part),
        )
        unknown = 0
        for key, series in fetched.total.items():
            group = self._group(key)
            rises = increases(series, memory.total.get(key), partial(births.born, key))
            tally.add_total(group, rises.at, rises.counts[0])
            if len(rises.counts) > 1 or key in fetched.of_part:
                tally.add_part(group, rises.at, rises.counts[-1])
            unknown += rises.unknown
        for key, series in fetched.part.items():
            rises = increases(series, memory.part.get(key), partial(births.born, key))
            tally.add_part(self._group(key), rises.at, rises.counts[0])
            unknown += rises.unknown
        return unknown

    def _group(self, key: Identity) -> Group:
        labels = dict(key)
        return tuple(labels.get(name, "") for name in self._group_by)

    def _older(self, which: int, at: int) -> dict[Identity, Last]:
        """Name the counters that were there within a day: one that comes back was not born."""
        found: dict[Identity, Last] = {}
        for selector in _counters(self._events)[which : which + 1]:
            with suppress(TooMuch):
                for each in self._asks.instant(f"count_over_time({selector}[1d])", at - 1):
                    key = identity(each["metric"], {"le", *self._replica_labels})
                    found[key] = Last(at - FORGET_MS - 1, (0,) * _quantities(self._events))
        return found


def _counters(events: Events) -> tuple[Selector, ...]:
    """Select the counters of the total and, where they are others, of the part."""
    match events:
        case Counters(total=total, part=part):
            return (total, part) if total.metric != part.metric else (total,)
        case Histogram(selector=selector, native=True):
            return (selector,)
        case Histogram(selector=selector):
            return (selector.of(f"{selector.metric}_bucket", Matcher("le", "=", "+Inf")),)
        case _:
            return ()


def _created(events: Events) -> Selector | None:
    match events:
        case Counters(total=selector) | Histogram(selector=selector):
            return created_of(selector)
        case _:
            return None


def _quantities(events: Events) -> int:
    return 2 if isinstance(events, Histogram) else 1


def _part_is_good(events: Events) -> bool:
    match events:
        case Counters(part_is=part_is) | Queries(part_is=part_is):
            return part_is == "good"
        case _:
            return True


def _remembered(memory: Memory, fetched: Fetched, at: int) -> Memory:
    return Memory(
        at,
        _lasts(memory.total, fetched.total, at),
        _lasts(memory.part, fetched.part, at),
        _newest(_times(fetched.total), memory.heard, at),
    )


def _lasts(
    known: Mapping[Identity, Last], found: Mapping[Identity, Series], at: int
) -> dict[Identity, Last]:
    kept = {key: last for key, last in known.items() if last.at >= at - DAY_MS}
    for key, series in found.items():
        last = last_of(series, known.get(key), at)
        if last is not None:
            kept[key] = last
    return kept


def _times(found: Mapping[Identity, Series]) -> Times:
    if not found:
        return np.array([], np.int64)
    return np.unique(np.concatenate([series.at for series in found.values()]))


def _newest(heard: Times, before: int | None, until: int) -> int | None:
    index = int(np.searchsorted(heard, until)) - 1
    return int(heard[index]) if index >= 0 else before


def _alive(heard: Times, before: int | None, blocked: set[int]) -> dict[int, tuple[int, int]]:
    """Name the minutes with samples, and those between samples that are near each other."""
    minutes: dict[int, tuple[int, int]] = {}
    times = ([] if before is None else [before]) + heard.tolist()
    for earlier, later in pairwise(times):
        if later - earlier <= SILENT_MS:
            for at in range(earlier // MINUTE_MS + 1, later // MINUTE_MS):
                minutes[at * MINUTE_MS] = (at * MINUTE_MS, at * MINUTE_MS)
    for at in heard.tolist():
        minute = at // MINUTE_MS * MINUTE_MS
        first, _ = minutes.get(minute, (at, at))
        minutes[minute] = (first, at)
    return {
        minute // 1000: found
        for minute, found in minutes.items()
        if minute // BLOCK_MS * BLOCK_MS not in blocked
    }
