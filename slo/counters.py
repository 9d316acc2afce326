"""Judged requests as Prometheus counters, for the rules that `tokenweir slo export` writes.

Our own counts can be corrected: a late span makes a good request of last hour a bad one, an
exclusion takes a night out. A counter must not go back, so each is the highest count that was ever
true: what was taken away is made up by the next requests of its kind, and a correction shows up
when it arrives, not where it belongs. Counting begins with the process, as counters do. Where an
SLO counts slices, so do its counters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from base.durations import floor_to
from base.selfmon import REGISTRY
from slo.exclusion import Excluded
from slo.model import Slo
from slo.verdict import Verdict
from slo.window_counts import count_windows
from store.engine import Engine

REQUESTS = "tokenweir_slo_requests_total"
WEIGHTS = "tokenweir_slo_weight_total"
"""What SLOs count that weigh requests, in their unit."""
RESULTS = ("good", "bad", "excluded")
BORN_AT_ZERO = timedelta(minutes=1)
"""A new group shows zeros so long: increases are seen only by who has seen the value before."""
ASKED_WITHIN = timedelta(minutes=10)
"""Nothing is counted that nobody has scraped for so long."""

_STEP = timedelta(seconds=10)

_NOTHING = (0, 0, 0)

Key = tuple[str, tuple[str, ...]]


class Judged(Protocol):
    """What is judged and what does not count: the evaluator."""

    @property
    def slos(self) -> tuple[Slo, ...]: ...

    def excluded(self, slos: Sequence[Slo], since: datetime, until: datetime) -> list[Excluded]: ...


class RequestCounters(Collector):
    """Counts judged requests since the start; call it with each evaluation's verdicts."""

    def __init__(
        self,
        engine: Engine,
        judged: Judged,
        now: Callable[[], datetime],
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._engine = engine
        self._judged = judged
        self._now = now
        self._since = floor_to(now(), _STEP)
        self._asked: datetime | None = None
        self._lock = threading.Lock()
        self._highest: dict[Key, tuple[int, int, int]] = {}
        self._born: dict[Key, datetime] = {}
        self._defined: dict[str, str] = {}
        self._units: dict[str, str] = {}
        self._ahead: dict[Key, tuple[int, int, int]] = {}
        self._shown: dict[Key, Mapping[str, str]] = {}
        registry.register(self)

    def __call__(self, verdicts: Sequence[Verdict], now: datetime) -> None:
        """Count anew; a group that is in no verdict is not shown, but not forgotten."""
        if self._asked is None or now - self._asked > ASKED_WITHIN:
            return
        slos = [slo for slo in self._judged.slos if slo.prometheus is None]
        excluded = self._judged.excluded(slos, self._since, now + _STEP)
        counted = count_windows(
            self._engine, slos, [_STEP], now, since=[self._since], excluded=excluded
        )
        found = {
            (name, each.group): each.periods[self._since]
            for name, groups in counted.items()
            for each in groups
        }
        shown = {
            (verdict.slo, tuple(verdict.group.values())): verdict.group for verdict in verdicts
        }
        names = {slo.name for slo in slos}
        changed = {
            slo.name for slo in slos
            if self._defined.setdefault(slo.name, slo.definition) != slo.definition
        }  # fmt: skip
        self._defined |= {slo.name: slo.definition for slo in slos}
        with self._lock:
            self._units = {slo.name: slo.unit for slo in slos if slo.is_weighted}
            self._shown = {
                key: group for key, group in shown.items()
                if key[0] in names and (key in found or key in self._highest)
            }  # fmt: skip
            for key, (count, left_out) in found.items():
                self._born.setdefault(key, now)
                before = self._highest.get(key, _NOTHING)
                values = (count.good, count.bad, left_out)
                if key[0] in changed:  # another question: go on from where the counters are
                    self._ahead[key] = _each(int.__sub__, before, values)
                values = _each(int.__add__, values, self._ahead.get(key, _NOTHING))
                self._highest[key] = _each(max, before, values)

    def collect(self) -> Iterator[Metric]:
        now = self._now()
        self._asked = now
        requests = Metric(
            REQUESTS.removesuffix("_total"),
            "Requests (or slices, where an SLO counts those) judged since the start, by SLO, group "
            "and result; never goes back.",
            "counter",
        )
        weights = Metric(
            WEIGHTS.removesuffix("_total"),
            "Tokens, micro-dollars, ... of requests judged since the start; never goes back.",
            "counter",
        )
        with self._lock:
            for key, group in self._shown.items():
                young = now - self._born[key] < BORN_AT_ZERO
                unit = self._units.get(key[0])
                metric, name = (requests, REQUESTS) if unit is None else (weights, WEIGHTS)
                own = {"slo": key[0]} if unit is None else {"slo": key[0], "unit": unit}
                for result, value in zip(RESULTS, self._highest[key], strict=True):
                    metric.add_sample(
                        name, {**own, **group, "result": result}, 0 if young else value
                    )
        yield requests
        if weights.samples:
            yield weights


def _each(
    work: Callable[[int, int], int], a: tuple[int, int, int], b: tuple[int, int, int]
) -> tuple[int, int, int]:
    return work(a[0], b[0]), work(a[1], b[1]), work(a[2], b[2])
