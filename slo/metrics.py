"""Verdicts as Prometheus gauges on tokenweir's own /metrics.

What is unknown has no sample: a missing series says "no data", NaN and 0 would lie.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from base.selfmon import REGISTRY
from slo.verdict import State, Verdict


class VerdictGauges(Collector):
    """Shows the newest verdicts; call it with each evaluation's."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._lock = threading.Lock()
        self._verdicts: tuple[Verdict, ...] = ()
        registry.register(self)

    def __call__(self, verdicts: Sequence[Verdict], now: datetime) -> None:  # noqa: ARG002
        """Replace what is shown; a group that is gone goes with its series."""
        with self._lock:
            self._verdicts = tuple(verdicts)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            verdicts = self._verdicts
        remaining = GaugeMetricFamily(
            "tokenweir_slo_budget_remaining_ratio",
            "Error budget left: 1 untouched, 0 spent, negative overspent.",
            labels=["slo", "group"],
        )
        burn = GaugeMetricFamily(
            "tokenweir_slo_burn_rate",
            "How many times faster than allowed the budget is spent.",
            labels=["slo", "group", "window"],
        )
        period_remaining = GaugeMetricFamily(
            "tokenweir_slo_period_budget_remaining_ratio",
            "Error budget left of the present calendar period.",
            labels=["slo", "group", "period", "zone"],
        )
        objective = GaugeMetricFamily(
            "tokenweir_slo_objective_ratio",
            "Share of requests that must be good.",
            labels=["slo", "group"],
        )
        state = GaugeMetricFamily(
            "tokenweir_slo_state", "1 for the state that holds.", labels=["slo", "group", "state"]
        )
        ends = GaugeMetricFamily(
            "tokenweir_slo_exhaustion_timestamp_seconds",
            "When the budget is foreseen to be spent.",
            labels=["slo", "group"],
        )
        for verdict in verdicts:
            labels = [verdict.slo, group_text(verdict)]
            if verdict.objective is not None:
                objective.add_metric(labels, verdict.objective)
            if verdict.budget_remaining is not None:
                remaining.add_metric(labels, verdict.budget_remaining)
            if verdict.forecast is not None and verdict.forecast.at is not None:
                ends.add_metric(labels, verdict.forecast.at.timestamp())
            for each in verdict.periods:
                if each.budget_remaining is not None:
                    period_remaining.add_metric(
                        [*labels, each.period, each.zone], each.budget_remaining
                    )
            for window, rate in verdict.burn.items():
                if rate is not None:
                    burn.add_metric([*labels, window], rate)
            for one in State:
                state.add_metric([*labels, one.value], float(verdict.state is one))
        yield from (remaining, period_remaining, burn, ends, objective, state, _cost(verdicts))


def _cost(verdicts: Sequence[Verdict]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "tokenweir_slo_cost_usd",
        "SLOs about cost, in their window: dollars spent and allowed, per unit at most and actual.",
        labels=["slo", "group", "what"],
    )
    for verdict in verdicts:
        for what, dollars in _dollars(verdict).items():
            if dollars is not None:
                family.add_metric([verdict.slo, group_text(verdict), what], dollars)
    return family


def _dollars(verdict: Verdict) -> Mapping[str, float | None]:
    if verdict.cost is None:
        return {}
    whole = verdict.cost.whole
    return {
        "spent": whole.spent_usd,
        "allowed": whole.allowed_usd,
        "at_most": verdict.cost.at_most_usd,
        "actual": whole.usd_per_unit,
    }


def group_text(verdict: Verdict) -> str:
    """Write a group as one label value: `tenant=acme,route=/v1/chat/completions`."""
    return ",".join(f"{column}={value}" for column, value in verdict.group.items())
