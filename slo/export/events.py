"""How many events an SLO had in a window, and how many of them were bad, as PromQL. Pure.

Sums come first and are divided later: no expression here divides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from base.durations import format_duration
from slo.counters import REQUESTS
from slo.imports.promql_tokens import without_comments
from slo.model import Slo
from slo.prometheus.document import WINDOW, WINDOW_SECONDS
from slo.prometheus.selector import Matcher, Selector
from slo.prometheus.sli import Counters, Gauge, Histogram, PrometheusSli, Queries
from slo.slices import Slices

LONGEST_READ = timedelta(hours=6)
"""Longer windows are added up from recorded five minutes: no query reads a month of samples."""
BASE = timedelta(minutes=5)
_ROUNDING = 1e-9
LEAST = timedelta(minutes=1)
"""A rate over less has no value where series are scraped every half minute."""


class Events(Protocol):
    """Expressions of all events and of the bad ones in a window; `base` is what is added up."""

    @property
    def base(self) -> timedelta: ...

    @property
    def longest(self) -> timedelta: ...

    def total(self, window: timedelta) -> str: ...

    def bad(self, window: timedelta) -> str: ...


def events_of(slo: Slo) -> Events:
    """Say what an SLO's rules read: the user's series, or the counters on our own /metrics.

    Our own counters of an SLO of slices count slices; of the user's series they are made here.
    """
    if slo.prometheus is not None and slo.slices is not None:
        return _Sliced(_events_of(slo, slo.prometheus), slo.slices)
    return _events_of(slo, slo.prometheus)


def _events_of(slo: Slo, prometheus: PrometheusSli | None) -> Events:
    if prometheus is None:
        name = Matcher("slo", "=", slo.name)
        judged = Selector(REQUESTS, (name, Matcher("result", "=~", "good|bad")))
        bad = Selector(REQUESTS, (name, Matcher("result", "=", "bad")))
        return _Counters(judged, bad, slo.group_by, is_bad=True)
    match prometheus.events:
        case Counters() as found:
            is_bad = found.part_is == "bad"
            return _Counters(found.total, found.part, slo.group_by, is_bad=is_bad)
        case Histogram(native=True) as found:
            return _Native(found.selector, found.threshold, slo.group_by)
        case Histogram() as found:
            bucket = Matcher("le", "=~", _spellings(found.threshold))
            count = found.selector.of(f"{found.selector.metric}_count")
            within = found.selector.of(f"{found.selector.metric}_bucket", bucket)
            return _Counters(count, within, slo.group_by, is_bad=False, must_exist=True)
        case Gauge() as found:
            return _Gauge(found.selector, slo.group_by)
        case Queries() as found:
            return _Queries(found, slo.group_by, found.resolution, found.resolution)


@dataclass(frozen=True, slots=True)
class _Counters:
    whole: Selector
    part: Selector
    by: Sequence[str]
    is_bad: bool
    must_exist: bool = False  # of the part: without its bucket nothing is known
    base: timedelta = BASE
    longest: timedelta = LONGEST_READ

    def total(self, window: timedelta) -> str:
        return f"{_sum(self.by)} (increase({self.whole}[{_text(window)}]))"

    def bad(self, window: timedelta) -> str:
        part = f"{_sum(self.by)} (increase({self.part}[{_text(window)}]))"
        if not self.must_exist:
            part = f"({part} or {self.total(window)} * 0)"
        if self.is_bad:
            return part
        return f"clamp_min({self.total(window)} - {part}, 0)"


@dataclass(frozen=True, slots=True)
class _Native:
    selector: Selector
    threshold: float
    by: Sequence[str]
    base: timedelta = BASE
    longest: timedelta = LONGEST_READ

    def total(self, window: timedelta) -> str:
        return f"histogram_count({self._observed(window)})"

    def bad(self, window: timedelta) -> str:
        within = f"histogram_fraction(-Inf, {self.threshold!r}, {self._observed(window)})"
        total = self.total(window)
        return f"((({total}) > 0) * (1 - {within}) or {total} * 0)"

    def _observed(self, window: timedelta) -> str:
        return f"{_sum(self.by)} (increase({self.selector}[{_text(window)}]))"


@dataclass(frozen=True, slots=True)
class _Gauge:
    """A sample a minute."""

    selector: Selector
    by: Sequence[str]
    base: timedelta = BASE
    longest: timedelta = LONGEST_READ

    def total(self, window: timedelta) -> str:
        return f"{_sum(self.by)} (count_over_time({self.selector}[{_text(window)}:1m]))"

    def bad(self, window: timedelta) -> str:
        is_zero = f"({self.selector} == bool 0)"
        return f"{_sum(self.by)} (sum_over_time({is_zero}[{_text(window)}:1m]))"


@dataclass(frozen=True, slots=True)
class _Queries:
    """Asked per resolution only, as the judge does; longer windows are added up."""

    queries: Queries
    by: Sequence[str]
    base: timedelta
    longest: timedelta

    def total(self, window: timedelta) -> str:
        return f"{_sum(self.by)} ({_known(_filled(self.queries.total, window))})"

    def bad(self, window: timedelta) -> str:
        total = self.total(window)
        part = f"{_sum(self.by)} ({_known(_filled(self.queries.part, window))})"
        match self.queries.part_is:
            case "bad":
                return f"({part} or {total} * 0)"
            case "good":
                return f"clamp_min({total} - ({part} or {total} * 0), 0)"
            case "ratio":
                return f"({total} * {part} or {total} * 0)"


@dataclass(frozen=True, slots=True)
class _Sliced:
    """Slices of others' events: a subquery is asked where slices end, so no event lies in two."""

    events: Events
    slices: Slices
    base: timedelta = BASE
    longest: timedelta = LONGEST_READ

    def total(self, window: timedelta) -> str:
        return f"count_over_time((({self.events.total(self.slices.length)}) > 0){self._of(window)})"

    def bad(self, window: timedelta) -> str:
        length = self.slices.length
        share = f"({self.events.bad(length)}) / (({self.events.total(length)}) > 0)"
        allowed = float(1 - self.slices.share)
        # Counts of counters are fractions: a billionth is no failed request.
        return f"sum_over_time(({share} > bool {allowed + _ROUNDING:.12g}){self._of(window)})"

    def _of(self, window: timedelta) -> str:
        return f"[{_text(window)}:{_text(self.slices.length)}]"


def _filled(query: str, window: timedelta) -> str:
    seconds = f"{window.total_seconds():g}"
    query = without_comments(query)  # it is put in brackets
    return query.replace(WINDOW_SECONDS, seconds).replace(WINDOW, _text(window))


def _known(query: str) -> str:
    """Leave out NaN, which compares with nothing."""
    return f"({query}) >= 0"


def _spellings(limit: float) -> str:
    """Match a bucket's limit however the client library writes it: 1, 1.0, 0.5, 0.50."""
    text = f"{limit:g}"
    if "e" in text or "inf" in text:
        return re.escape(f"{limit!r}")
    return re.escape(text) + ("0*" if "." in text else "(\\.0*)?")


def _sum(by: Sequence[str]) -> str:
    return f"sum by ({', '.join(by)})" if by else "sum"


def _text(window: timedelta) -> str:
    return format_duration(window)
