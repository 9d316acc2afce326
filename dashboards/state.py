"""What the address bar says: everything a shared link needs to show the same page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import parse_qsl, urlencode

from base.durations import parse_instant
from base.errors import BadInput
from cost.read import DIMENSIONS, Dimension, Window

RANGES: Mapping[str, timedelta] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
DEFAULT_RANGE = "24h"
FOLLOWS = ("range", "from", "to", "tenant")
"""What links to other pages keep."""

OUTCOMES = ("good", "bad", "excluded")


@dataclass(frozen=True, slots=True)
class ViewState:
    """One page's state. `start` and `end` are set only for a fixed time range."""

    range: str = DEFAULT_RANGE
    start: datetime | None = None
    end: datetime | None = None
    tenant: str | None = None
    route: str | None = None
    model: str | None = None
    outcome: str | None = None
    slo: str | None = None
    is_whole: bool = False  # every objective, not only the most urgent
    trace: str | None = None
    span: str | None = None
    by: tuple[Dimension, ...] = ("tenant", "route")

    @property
    def is_live(self) -> bool:
        return self.end is None

    def window(self, now: datetime) -> Window:
        """Resolve the time range; half-open, ending now unless it is fixed."""
        end = self.end or now
        start = self.start if self.start is not None else end - RANGES[self.range]
        return Window(start, end) if start < end else Window(end - RANGES[self.range], end)

    def filters(self) -> dict[str, str]:
        """Name the request filters that are set."""
        values = {
            "tenant": self.tenant,
            "route": self.route,
            "model": self.model,
            "outcome": self.outcome,
        }
        return {name: value for name, value in values.items() if value}


def parse_search(search: str | None) -> ViewState:
    """Read a query string; what it does not understand is as if it were not there."""
    values = {k: v for k, v in parse_qsl((search or "").lstrip("?")) if v}
    chosen = tuple(name for name in DIMENSIONS if name in values.get("by", "").split(","))
    return ViewState(
        range=values["range"] if values.get("range") in RANGES else DEFAULT_RANGE,
        start=_instant(values.get("from")),
        end=_instant(values.get("to")),
        tenant=values.get("tenant"),
        route=values.get("route"),
        model=values.get("model"),
        outcome=values["outcome"] if values.get("outcome") in OUTCOMES else None,
        slo=values.get("slo"),
        is_whole=values.get("all") == "1",
        trace=values.get("trace"),
        span=values.get("span"),
        by=chosen or ("tenant", "route"),
    )


def followed(search: str | None) -> dict[str, str]:
    """Pick what links to other pages keep."""
    values = dict(parse_qsl((search or "").lstrip("?")))
    return {name: values[name] for name in FOLLOWS if values.get(name)}


def with_search(search: str | None, **changes: str | None) -> str:
    """Change some values of a query string and keep the rest; None removes one."""
    values = {k: v for k, v in parse_qsl((search or "").lstrip("?")) if v}
    for name, value in changes.items():
        values.pop(name, None)
        if value:
            values[name] = value
    return f"?{urlencode(values, safe=',:~/')}" if values else ""


def _instant(text: str | None) -> datetime | None:
    try:
        return parse_instant(text) if text else None
    except BadInput:
        return None
