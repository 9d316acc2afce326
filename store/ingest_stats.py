"""What was taken in, per sender: spans accepted, duplicate, late, and names without a meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from store.engine import Engine


@dataclass(frozen=True, slots=True)
class SenderCounts:
    """One sender since the store began. `tenant` is the credential's, '' if it names tenants."""

    source: str
    tenant: str
    accepted: int
    duplicate: int
    late: int
    unknown_names: Mapping[str, int] = field(default_factory=dict)


def sender_counts(engine: Engine) -> list[SenderCounts]:
    """Count per (source, tenant); `unknown_names` maps attribute names to spans that carry them."""
    accepted = engine.rows(
        "SELECT source, tenant, sum(accepted) AS accepted, sum(late) AS late FROM ingest_batches "
        "GROUP BY source, tenant ORDER BY source, tenant"
    )
    duplicates = engine.rows(
        "SELECT source, tenant, sum(duplicate) AS duplicate FROM ingest_duplicates FINAL "
        "GROUP BY source, tenant"
    )
    names = engine.rows(
        "SELECT source, tenant, name, sum(spans) AS spans FROM unknown_names "
        "GROUP BY source, tenant, name ORDER BY spans DESC, name LIMIT 1000"
    )
    twice = {(row["source"], row["tenant"]): row["duplicate"] for row in duplicates}
    unknown: dict[tuple[str, str], dict[str, int]] = {}
    for row in names:
        unknown.setdefault((row["source"], row["tenant"]), {})[row["name"]] = row["spans"]
    return [
        SenderCounts(
            source=row["source"],
            tenant=row["tenant"],
            accepted=row["accepted"],
            duplicate=twice.get((row["source"], row["tenant"]), 0),
            late=row["late"],
            unknown_names=unknown.get((row["source"], row["tenant"]), {}),
        )
        for row in accepted
    ]
