"""The gateway's own counters, for Prometheus. Tenants come from the tenant file: a closed set."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from stack.wire.outcome import Outcome
from stack.wire.sse import AnswerFacts

_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 30, 60, 120)


class GatewayMetrics:
    """One registry per gateway, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "tokenweir_gateway_requests",
            "Requests that ended, by tenant (empty when the key is unknown), outcome and reason",
            ["tenant", "outcome", "reason"],
            registry=self.registry,
        )
        self._tokens = Counter(
            "tokenweir_gateway_tokens",
            "Tokens the engines counted",
            ["tenant", "kind"],
            registry=self.registry,
        )
        self._ttft = Histogram(
            "tokenweir_gateway_time_to_first_token_seconds",
            "Arrival to the first token with content, streams only",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._duration = Histogram(
            "tokenweir_gateway_request_duration_seconds",
            "Arrival to the end, answered requests only",
            buckets=_SECONDS,
            registry=self.registry,
        )

    def watch(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Add a gauge that is read when it is scraped."""
        Gauge(f"tokenweir_gateway_{name}", help_text, registry=self.registry).set_function(read)

    def count(self, tenant: str, outcome: Outcome, facts: AnswerFacts, seconds: float) -> None:
        self._requests.labels(tenant, outcome.label.value, outcome.reason.value).inc()
        for kind, tokens in (
            ("prompt", facts.prompt_tokens),
            ("cached", facts.cached_tokens),
            ("completion", facts.completion_tokens),
        ):
            if tokens is not None:
                self._tokens.labels(tenant, kind).inc(tokens)
        if facts.ttft_s is not None:
            self._ttft.observe(facts.ttft_s)
        if outcome.error_type is None:
            self._duration.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
