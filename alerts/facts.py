"""What was measured about an alert, kept with its episode so that a later message can say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slo.weight import REQUESTS


@dataclass(frozen=True, slots=True)
class Facts:
    """The numbers behind one alert. None is unknown. Only JSON types: it is stored as JSON."""

    text: str = ""  # for alerts that are not about an SLO
    objective: float | None = None
    window: str = ""
    good: int = 0
    bad: int = 0
    sli: float | None = None
    budget_remaining: float | None = None
    burn: float | None = None
    burn_window: str = ""
    factor: float | None = None
    expires_in_s: float | None = None
    bad_reasons: Mapping[str, int] = field(default_factory=dict)
    unit: str = REQUESTS  # of good, bad and bad_reasons
    burning_since: str = ""
    shares: Mapping[str, float] = field(
        default_factory=dict
    )  # of the bad ones that burn, by reason
    suspects: Sequence[Mapping[str, Any]] = ()  # dimension, value, of_bad, of_all
    surges: Sequence[Mapping[str, Any]] = ()  # dimension, value, what, per_minute, before...
    traces: Sequence[str] = ()
    cost: Mapping[str, Any] = field(default_factory=dict)  # of an SLO about dollars
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        # Not asdict, which copies every value: this runs for each open alert of each tick.
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Facts:
        known = cls.__slots__
        return cls(**{name: value for name, value in stored.items() if name in known})
