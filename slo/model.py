"""What an SLO is, once its document has been read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

from slo.calendar import Calendar
from slo.compile import to_sql
from slo.expression import Expression
from slo.parse import Clause
from slo.prometheus.sli import PrometheusSli
from slo.tiers import Tier


@dataclass(frozen=True)
class Slo:
    """One objective over request facts, judged per group.

    `window` is the rolling one; `calendars` are judged beside it. `eligible` says which requests
    are asked about (None: all); a request is good when every clause of `good` is true. With
    `prometheus` its events are not requests that were seen here, and both are empty.
    """

    name: str
    objective: float
    window: timedelta
    good: tuple[Clause, ...]
    tiers: tuple[Tier, ...]
    eligible: Expression | None = None
    group_by: tuple[str, ...] = ()
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    calendars: tuple[Calendar, ...] = ()
    prometheus: PrometheusSli | None = None

    @cached_property
    def definition(self) -> str:
        """Name what is counted by 16 hex digits.

        Two documents that count the same have the same definition, so objective, window, tiers
        and texts can change without counting again.
        """
        counted: dict[str, Any] = {
            "eligible": to_sql(self.eligible) if self.eligible is not None else None,
            "good": [[clause.name, to_sql(clause.expression)] for clause in self.good],
            "group_by": self.group_by,
        }
        if self.prometheus is not None:
            counted = {"prometheus": self.prometheus.counted(), "group_by": self.group_by}
        text = json.dumps(counted, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
