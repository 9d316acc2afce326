"""Which sources count the requests, and do they still speak? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from actuators.evidence import Absent, Known, Stale, Value
from actuators.settings import ActuatorSettings, GatewaySettings
from store.sources import SourceState

_COUNTING_LAYERS = ("gateway", "router", "engine", "llm", "client")  # the first present one counts


@dataclass(frozen=True, slots=True)
class Liveness:
    """The newest word of the counting layer, since when it speaks, and who fell silent."""

    newest: Value[datetime]
    first: datetime | None
    coverage: float
    missing: tuple[str, ...]


def liveness(
    sources: Sequence[SourceState],
    scope: GatewaySettings,
    now: datetime,
    settings: ActuatorSettings,
) -> Liveness:
    """Judge the layer whose spans are the requests: a quorum of its instances must have spoken."""
    recent = [
        s
        for s in sources
        if now - s.last <= settings.forget_after
        and (scope.service is None or s.layer != "gateway" or s.service == scope.service)
    ]
    layer = next((x for x in _COUNTING_LAYERS if any(s.layer == x for s in recent)), None)
    mine = [s for s in recent if s.layer == layer]
    if not mine:
        ever = max((s.last for s in sources if s.layer in _COUNTING_LAYERS), default=None)
        if ever is None:
            return Liveness(Absent("no source ever reported"), None, 0.0, ())
        return Liveness(Stale(ever, ever, now - ever), None, 0.0, ())
    fresh = [s for s in mine if now - s.last <= settings.stale_after]
    newest = max(s.last for s in mine)
    coverage = len(fresh) / len(mine)
    missing = tuple(sorted(f"{s.service}/{s.instance}" for s in mine if s not in fresh))
    value: Value[datetime] = (
        Known(newest, newest, coverage, layer or "")
        if coverage >= 0.5
        else Stale(newest, newest, now - newest)
    )
    return Liveness(value, min(s.first for s in mine), coverage, missing)
