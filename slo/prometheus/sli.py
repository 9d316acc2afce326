"""What a `prometheus:` section asks for. Frozen, and free of how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

from slo.prometheus.selector import Selector

Part = Literal["good", "bad"]
"""Which half of the total is measured; the other half is what is left."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Events are increases of counters: all of them, and the good or the bad ones."""

    total: Selector
    part: Selector
    part_is: Part


@dataclass(frozen=True, slots=True)
class Histogram:
    """Events are observations; those at or under `threshold`, in the metric's unit, are good."""

    selector: Selector
    threshold: float
    native: bool = False


@dataclass(frozen=True, slots=True)
class Gauge:
    """Every sample is an event, good when it is not 0."""

    selector: Selector


@dataclass(frozen=True, slots=True)
class Queries:
    """Events are what PromQL answers per `resolution`, as fractions; `ratio` is bad / total."""

    total: str
    part: str
    part_is: Part | Literal["ratio"]
    resolution: timedelta


Events = Counters | Histogram | Gauge | Queries


@dataclass(frozen=True, slots=True)
class PrometheusSli:
    """`server` names one of `slo.prometheus`; None is the only one there is."""

    events: Events
    server: str | None = None

    @property
    def reason(self) -> str:
        """Name why an event is bad, in the words of the document."""
        match self.events:
            case Histogram(threshold=threshold):
                return f"over {threshold:g}"
            case Gauge():
                return "zero"
            case _:
                return "bad"

    def counted(self) -> Mapping[str, Any]:
        """Say what is counted, for the SLO's definition."""
        kind = type(self.events).__name__.lower()
        fields = asdict(self.events) | {
            key: str(value)
            for key in self.events.__slots__
            if isinstance(value := getattr(self.events, key), (Selector, timedelta))
        }
        return {"server": self.server, kind: fields}
