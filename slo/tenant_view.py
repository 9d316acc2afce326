"""What one tenant may see of verdicts. Pure.

Its own groups, whole; nothing of SLOs that are not grouped by tenant, whose counts are everybody's.
Who sends more is looked at over all traffic, so of that only the tenant itself is named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slo.verdict import Causes, Verdict


def visible_to(tenant: str, verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Keep the verdicts of the tenant's own groups, without what is said of others."""
    return [
        replace(each, causes=_without_others(each.causes, tenant))
        for each in verdicts
        if each.group.get("tenant") == tenant
    ]


def _without_others(causes: Causes | None, tenant: str) -> Causes | None:
    if causes is None:
        return None
    own = tuple(s for s in causes.surges if (s.dimension, s.value) == ("tenant", tenant))
    return replace(causes, surges=own)
