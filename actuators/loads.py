"""Rows of the evidence queries, turned into loads. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from actuators.evidence import ReplicaLoad, TenantLoad, finite


def tenant_loads(
    rows: Iterable[Mapping[str, Any]], baselines: Mapping[str, float] | None, window: timedelta
) -> tuple[TenantLoad, ...]:
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        for column, value in row.items():
            if column not in {"tenant", "priority"}:
                sums[row["tenant"]][column] += value
    admitted = sum(s["requests"] - s["refused"] for s in sums.values())
    everyone = sum(s["work"] for s in sums.values()) / admitted if admitted else 0.0
    seconds = window.total_seconds()
    return tuple(
        _tenant_load(tenant, s, everyone, seconds, baselines) for tenant, s in sorted(sums.items())
    )


def _tenant_load(
    tenant: str,
    sums: Mapping[str, float],
    everyone: float,
    seconds: float,
    baselines: Mapping[str, float] | None,
) -> TenantLoad:
    admitted = sums["requests"] - sums["refused"]
    mean = sums["work"] / admitted if admitted else everyone
    unsized = sums["refused"] - sums["refused_sized"]
    return TenantLoad(
        tenant=tenant,
        arrivals_per_s=sums["requests"] / seconds,
        refused_per_s=sums["refused"] / seconds,
        prompt_tokens_per_s=sums["prompt"] / seconds,
        admitted_work_per_s=sums["work"] / seconds,
        offered_work_per_s=(sums["work"] + sums["refused_work"] + unsized * mean) / seconds,
        baseline_work_per_s=None if baselines is None else baselines.get(tenant, 0.0),
    )


def work_by_priority(rows: Iterable[Mapping[str, Any]], seconds: float) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for row in rows:
        if row["priority"]:
            total[row["priority"]] += row["work"] / seconds
    return dict(total)


def replica_load(row: Mapping[str, Any], seconds: float) -> ReplicaLoad:
    return ReplicaLoad(
        replica=row["replica"],
        requests=row["requests"],
        errors=row["errors"],
        work_per_s=row["work"] / seconds,
        ttft_p95_ms=finite(row["ttft_p95_ms"]),
        tpot_p50_ms=finite(row["tpot_p50_ms"]),
        queue_p95_ms=finite(row["queue_p95_ms"]),
    )
