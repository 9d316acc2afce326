"""Durations and instants as people and APIs write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from base.errors import BadInput

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def parse_duration(text: str) -> timedelta:
    """Read "90s", "5m", "1h30m", "30d" or "4w".

    Months and years have no fixed length and are refused.
    """
    parts = _PART.findall(text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise BadInput(f"duration {text!r} is not like 30s, 5m, 1h30m, 30d or 4w")
    return timedelta(seconds=sum(float(n) * _UNITS[u] for n, u in parts))


def format_duration(span: timedelta) -> str:
    """Write a duration the way it is read: the largest units first, none that is zero."""
    left = round(span.total_seconds() * 1000)
    if left == 0:
        return "0s"
    out = "-" if left < 0 else ""
    left = abs(left)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            out += f"{count}{unit}"
    return out


def parse_instant(text: str) -> datetime:
    """Read RFC 3339 ("2026-11-30T18:00:00Z") or unix seconds ("1796061254.17"), as UTC."""
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        # A "+" of an offset arrives as a space from query strings that were not escaped.
        moment = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text)
    except ValueError as error:
        raise BadInput(f"time {text!r} is neither RFC 3339 nor unix seconds") from error
    if moment.tzinfo is None:
        raise BadInput(f"time {text!r} has no zone: add Z or an offset such as +02:00")
    return moment.astimezone(UTC)


def format_instant(moment: datetime) -> str:
    """Write RFC 3339 in UTC with milliseconds: 2026-11-30T18:00:00.000Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def floor_to(moment: datetime, step: timedelta) -> datetime:
    """Round down to a multiple of `step` since the epoch."""
    size = round(step.total_seconds())
    return datetime.fromtimestamp(int(moment.timestamp() // size) * size, UTC)
