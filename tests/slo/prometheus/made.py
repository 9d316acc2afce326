"""SLOs and times for these tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from slo.model import Slo
from slo.prometheus.selector import parse_selector
from slo.prometheus.sli import Counters, Events, Gauge, Histogram, Part, PrometheusSli, Queries
from slo.tiers import derive

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
T0 = round(NOON.timestamp()) * 1000
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


def make_slo(
    events: Events,
    *,
    name: str = "x",
    group_by: tuple[str, ...] = (),
    window: timedelta = timedelta(hours=1),
    server: str | None = None,
) -> Slo:
    return Slo(
        name=name,
        objective=0.9,
        window=window,
        good=(),
        tiers=derive(0.9, window),
        group_by=group_by,
        prometheus=PrometheusSli(events, server),
    )


def counters(total: str = "requests_total", part: str | None = None, is_: Part = "bad") -> Counters:
    part = part or 'requests_total{code=~"5.."}'
    return Counters(parse_selector(total), parse_selector(part), is_)


def histogram(threshold: float, name: str = "ttft_seconds") -> Histogram:
    return Histogram(parse_selector(name), threshold)


def gauge(name: str = "up") -> Gauge:
    return Gauge(parse_selector(name))


def queries(total: str, part: str, part_is: str = "bad", minutes: int = 1) -> Queries:
    return Queries(total, part, part_is, timedelta(minutes=minutes))  # type: ignore[arg-type]


def every(step: int, *values: float, start: int = T0) -> dict[int, float]:
    return {start + number * step: value for number, value in enumerate(values)}
