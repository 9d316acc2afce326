"""What alerts count about themselves."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from base.selfmon import REGISTRY

EDGES = Counter("tokenweir_alerts_edges_total", "Turns of alerts", ["turn"], registry=REGISTRY)
OPEN = Gauge("tokenweir_alerts_open", "Alerts firing or clearing", ["severity"], registry=REGISTRY)
FROZEN = Gauge(
    "tokenweir_alerts_frozen", "Alerts held because their source is silent", registry=REGISTRY
)
TICK_SECONDS = Histogram(
    "tokenweir_alerts_tick_seconds", "Time of one tick, transaction included", registry=REGISTRY
)
LAST_TICK = Gauge(
    "tokenweir_alerts_last_tick_timestamp_seconds", "When the last tick ended", registry=REGISTRY
)
ENQUEUED = Counter(
    "tokenweir_alerts_notifications_enqueued_total",
    "Notifications put into the outbox",
    ["receiver", "reason"],
    registry=REGISTRY,
)
ATTEMPTS = Counter(
    "tokenweir_alerts_attempts_total",
    "Attempts to deliver, by how they ended",
    ["receiver", "fate"],
    registry=REGISTRY,
)
DROPPED = Counter(
    "tokenweir_alerts_notifications_dropped_total",
    "Notifications that were not delivered and will not be",
    ["receiver", "reason"],
    registry=REGISTRY,
)
LONGEST_WAIT = Gauge(
    "tokenweir_alerts_outbox_longest_wait_seconds",
    "How long the oldest notification has been in the outbox; 0 if none is",
    registry=REGISTRY,
)
