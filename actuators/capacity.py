"""How much work a replica can do, and how many replicas a demand needs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from actuators.evidence import Absent, Evidence, Fleet, Known, Value, known, measured
from actuators.settings import FleetSettings, Thresholds


@dataclass(frozen=True, slots=True)
class Slot:
    """A few seconds of finished work: per second, over the replicas that took part."""

    number: int
    work_per_s: float
    replicas: int
    queue_p50_ms: float | None


def measured_capacity(
    slots: Sequence[Slot], thresholds: Thresholds, now: datetime
) -> Known[float] | Absent:
    """Return the work per second that one replica did while requests waited.

    Throughput shows capacity only under queueing, and two such slots are needed: one may be the
    moment the queue began.
    """
    full = [
        slot.work_per_s / slot.replicas
        for slot in slots
        if slot.replicas
        and slot.queue_p50_ms is not None
        and slot.queue_p50_ms >= thresholds.queueing_ms
    ]
    if len(full) >= 2 and median(full) > 0:
        return Known(median(full), now, source=f"measured in {len(full)} slots with queueing")
    return Absent("no queueing was seen")


def peak(slots: Sequence[Slot], per_window: int, now: datetime) -> Value[float]:
    """Return the busiest window's work per second: `per_window` consecutive slots, averaged."""
    done: dict[int, float] = defaultdict(float)
    for slot in slots:
        done[slot.number // per_window] += slot.work_per_s / per_window
    return measured(max(done.values(), default=None), now, "facts", why="no work was done")


def replicas_for(work_per_s: float, per_replica: float, headroom: float) -> int:
    """Return the smallest number of replicas that carries the work at `headroom` of capacity."""
    return max(1, math.ceil(work_per_s / (per_replica * headroom) - 1e-9))


def need(
    evidence: Evidence, fleet: Fleet, thresholds: Thresholds, *, at_peak: bool = False
) -> int | None:
    """Return how many replicas the offered work needs; None when that can't be computed.

    `at_peak` asks for the busiest window of late instead, where it was higher: what is given back
    must not be missed at the next burst.
    """
    offered = known(evidence.offered_work_per_s)
    capacity = known(fleet.capacity_per_replica)
    if offered is None or capacity is None:
        return None
    if at_peak:
        offered = max(offered, known(fleet.peak_work_per_s) or 0.0)
    return replicas_for(offered, capacity, thresholds.headroom)


def is_queueing(evidence: Evidence, thresholds: Thresholds) -> bool:
    """Say whether requests are known to wait too long."""
    queue = known(evidence.queue_p95_ms)
    return queue is not None and queue >= thresholds.queueing_ms


def total_capacity(evidence: Evidence, settings: Sequence[FleetSettings]) -> float | None:
    """Return the work per second all ready replicas can do; None if any fleet's is unknown."""
    total = 0.0
    for fleet in (evidence.fleet(s.name) for s in settings):
        state = known(fleet.state) if fleet else None
        capacity = known(fleet.capacity_per_replica) if fleet else None
        if state is None or capacity is None:
            return None
        total += state.ready * capacity
    return total if settings else None
