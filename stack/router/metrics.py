"""The router's counters under the names vllm-router uses, so that its dashboards fit."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from stack.router.breaker import Circuit
from stack.router.workers import WorkerTable

POLICY = "cache_aware"
_CIRCUIT = {Circuit.CLOSED: 0, Circuit.OPEN: 1, Circuit.HALF_OPEN: 2}


class RouterMetrics:
    """One registry per router. Unlike the original, `active_workers` follows what is there."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "route")
        self.errors = self._counter("request_errors", "route", "error_type")
        self.processed = self._counter("processed_requests", "worker")
        self.decisions = self._counter("policy_decisions", "policy", "worker")
        self.prefix = self._counter("prefix_routing_decisions", "policy", "stage", "outcome")
        self.balanced = self._counter("load_balancing_events")
        self.retries = self._counter("retries", "route")
        self.circuit_outcomes = self._counter("cb_outcomes", "worker", "outcome")
        self.circuit_moves = self._counter("cb_state_transitions", "worker", "from", "to")
        self.duration = Histogram(
            "vllm_router_generate_duration_seconds",
            "Arrival to the end of the answer",
            registry=self.registry,
        )
        self._active = self._gauge("active_workers")
        self._running = self._gauge("running_requests", "worker")
        self._health = self._gauge("worker_health", "worker")
        self._circuit = self._gauge("cb_state", "worker")
        self._least = self._gauge("min_load")
        self._most = self._gauge("max_load")

    def text(self, table: WorkerTable) -> bytes:
        """Write everything, the gauges as the table stands now."""
        workers = [worker for worker in table if not worker.draining]
        for gauge in (self._running, self._health, self._circuit):
            gauge.clear()
        for worker in table:
            self._running.labels(worker.url).set(worker.load)
            self._health.labels(worker.url).set(worker.healthy)
            self._circuit.labels(worker.url).set(_CIRCUIT[worker.breaker.state])
        self._active.set(sum(worker.healthy for worker in workers))
        self._least.set(min((worker.load for worker in workers), default=0))
        self._most.set(max((worker.load for worker in workers), default=0))
        return generate_latest(self.registry)

    def forget(self, url: str) -> None:
        """Drop a removed worker's series, or they would be counted for ever."""
        self.processed.remove_by_labels({"worker": url})
        for counter in (self.decisions, self.circuit_outcomes, self.circuit_moves):
            counter.remove_by_labels({"worker": url})

    def _counter(self, name: str, *labels: str) -> Counter:
        return Counter(f"vllm_router_{name}", name, labels, registry=self.registry)

    def _gauge(self, name: str, *labels: str) -> Gauge:
        return Gauge(f"vllm_router_{name}", name, labels, registry=self.registry)
