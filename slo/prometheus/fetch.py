"""The samples that an SLI counts, asked for and put beside each other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from base.errors import Permanent
from slo.prometheus.client import Asks
from slo.prometheus.selector import Matcher, Selector
from slo.prometheus.series import (
    Identity,
    Series,
    joined,
    read_histograms,
    read_series,
)
from slo.prometheus.sli import Counters, Gauge, Histogram

_INF = "+Inf"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was asked for.

    A second quantity of `total` is the part. `part` holds counters of the part alone, `of_part`
    says which counters of the total are of the part with all they count.
    """

    total: Mapping[Identity, Series]
    part: Mapping[Identity, Series]
    of_part: frozenset[Identity]
    notes: tuple[str, ...] = ()


class Fetcher:
    """Asks for the samples of one SLI; remembers how the server writes the bucket's limit."""

    def __init__(self, asks: Asks, replica_labels: Sequence[str] = ()) -> None:
        self._asks = asks
        self._replica_labels = tuple(replica_labels)
        self._spellings: set[str] = set()

    def fetch(self, events: Counters | Histogram | Gauge, start: int, end: int) -> Fetched:
        match events:
            case Counters():
                return self._counters(events, start, end)
            case Histogram(native=True):
                return self._native(events, start, end)
            case Histogram():
                return self._histogram(events, start, end)
            case Gauge():
                return Fetched(self._series(events.selector, start, end), {}, frozenset())

    def _series(self, selector: Selector, start: int, end: int) -> dict[Identity, Series]:
        result = self._asks.samples(str(selector), start, end)
        return read_series(result, start, end, replica_labels=self._replica_labels)

    def _counters(self, events: Counters, start: int, end: int) -> Fetched:
        # The part is asked for second: what is new in between is then in the part at most, where
        # it does not make a request look bad (or good) that nobody has judged yet.
        total = self._series(events.total, start, end)
        part = self._series(events.part, start, end)
        if events.total.metric != events.part.metric:
            total, part = _up_to_where_both_are_known(total, part)
            return Fetched(total, part, frozenset())
        outside = part.keys() - total.keys()
        newer = {key for key in outside if part[key].at.size and _is_newest(part[key], total)}
        strange = outside - newer
        notes = (
            (f"{len(strange)} series of {events.part} are not in {events.total}",)
            if strange
            else ()
        )
        return Fetched(
            total, {key: part[key] for key in strange}, frozenset(part.keys() - outside), notes
        )

    def _histogram(self, events: Histogram, start: int, end: int) -> Fetched:
        spellings = self._spellings | _spellings(events.threshold)
        found = self._buckets(events, spellings, start, end)
        whole = {key for key in found if dict(key)["le"] == _INF}
        if whole and len(whole) == len(found) and not math.isinf(events.threshold):
            newest = max(int(series.at[-1]) for series in found.values())
            spellings = self._ask_for_spellings(events, newest)
            self._spellings |= spellings
            found = self._buckets(events, spellings, start, end)
        by_target: dict[Identity, dict[bool, Series]] = {}
        for key, series in found.items():
            target = tuple(pair for pair in key if pair[0] != "le")
            by_target.setdefault(target, {})[dict(key)["le"] == _INF] = series
        pairs = {
            target: replace(joined(each[True], each[False]), labels=dict(target))
            for target, each in by_target.items()
            if len(each) == 2
        }
        lacking = len(by_target) - len(pairs)
        notes = (f"{lacking} series have no bucket at {events.threshold:g}",) if lacking else ()
        return Fetched(pairs, {}, frozenset(), notes)

    def _buckets(
        self, events: Histogram, spellings: set[str], start: int, end: int
    ) -> dict[Identity, Series]:
        limits = "|".join(re.escape(text) for text in sorted({*spellings, _INF}))
        name = f"{events.selector.metric}_bucket"
        return self._series(events.selector.of(name, Matcher("le", "=~", limits)), start, end)

    def _ask_for_spellings(self, events: Histogram, at: int) -> set[str]:
        """Find the bucket among those there are; Permanent names the nearest."""
        selector = events.selector.of(f"{events.selector.metric}_bucket")
        answer = self._asks.instant(f"group by (le) ({selector})", at)
        limits = {text: float(text) for each in answer if (text := each["metric"].get("le"))}
        same = {text for text, limit in limits.items() if limit == events.threshold}
        if same or not limits:
            return same
        below = [limit for limit in limits.values() if limit < events.threshold]
        above = [limit for limit in limits.values() if events.threshold < limit < math.inf]
        near = [f"{limit:g}" for limit in (*sorted(below)[-1:], *sorted(above)[:1])]
        raise Permanent(
            f"threshold {events.threshold:g} is not a bucket of {events.selector.metric}: "
            f"the nearest {'are' if len(near) > 1 else 'is'} {' and '.join(near) or _INF}"
        )

    def _native(self, events: Histogram, start: int, end: int) -> Fetched:
        result = list(self._asks.samples(str(events.selector), start, end))
        total = read_histograms(
            result, start, end, events.threshold, replica_labels=self._replica_labels
        )
        if not total and any(each.get("values") for each in result):
            raise Permanent(f"{events.selector} has no native histograms: use histogram")
        return Fetched(total, {}, frozenset())


def target_of(key: Identity) -> tuple[str, str]:
    """Name what was scraped; series without these labels (of rules) count as of one target."""
    labels = dict(key)
    return labels.get("job", ""), labels.get("instance", "")


def _spellings(limit: float) -> set[str]:
    """Write a bucket's limit in the ways that client libraries do."""
    whole = {str(int(limit)), f"{int(limit)}.0"} if limit.is_integer() else set()
    return {repr(limit), f"{limit:g}", *whole}


def _is_newest(series: Series, total: Mapping[Identity, Series]) -> bool:
    """Say whether a series began after the total was read."""
    newest = max((int(each.at[-1]) for each in total.values() if each.at.size), default=0)
    return int(series.at[0]) >= newest


def _up_to_where_both_are_known(
    total: Mapping[Identity, Series], part: Mapping[Identity, Series]
) -> tuple[dict[Identity, Series], dict[Identity, Series]]:
    """Leave out the newest samples of a target of which only one kind has arrived."""
    newest: list[dict[tuple[str, str], int]] = [{}, {}]
    for kind, found in enumerate((total, part)):
        for key, series in found.items():
            if series.at.size:
                target = target_of(key)
                newest[kind][target] = max(newest[kind].get(target, 0), int(series.at[-1]))
    limits = {
        target: min(newest[0][target], newest[1][target]) + 1
        for target in newest[0].keys() & newest[1].keys()
        if abs(newest[0][target] - newest[1][target]) < _ARRIVES_WITHIN_MS
    }

    def cut(found: Mapping[Identity, Series]) -> dict[Identity, Series]:
        return {
            key: series.between(0, limits.get(target_of(key), 2**62))
            for key, series in found.items()
        }

    return cut(total), cut(part)


_ARRIVES_WITHIN_MS = 300_000
