"""What the loop says about itself."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from base.selfmon import REGISTRY

TICKS = Counter(
    "tokenweir_actuators_ticks_total",
    "Ticks of the control loop, by what came of them",
    ["scope", "result"],
    registry=REGISTRY,
)
STEPS = Counter(
    "tokenweir_actuators_lease_steps_total",
    "Steps of leases",
    ["kind", "step"],
    registry=REGISTRY,
)
REFUSALS = Counter(
    "tokenweir_actuators_refused_proposals_total",
    "Proposals the guard stopped",
    ["rule"],
    registry=REGISTRY,
)
DRIVER_FAILURES = Counter(
    "tokenweir_actuators_driver_failures_total",
    "Changes a target did not take",
    ["kind"],
    registry=REGISTRY,
)
DECISION = Histogram(
    "tokenweir_actuators_decision_seconds",
    "Time from a snapshot to guarded proposals",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 1),
    registry=REGISTRY,
)
FROZEN = Gauge(
    "tokenweir_actuators_scope_frozen",
    "1 while a scope has no evidence that may be acted on",
    ["scope"],
    registry=REGISTRY,
)
DESIRED = Gauge(
    "tokenweir_actuators_desired_replicas",
    "What a fleet should have; absent while that is not known",
    ["fleet"],
    registry=REGISTRY,
)
