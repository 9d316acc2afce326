"""Durations and instants as people and APIs write them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from base.errors import BadInput

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
_LONGEST_S = 36_525 * 86_400.0  # a hundred years
# What fits into nanoseconds, with room for a window before it and after.
_EPOCH = datetime.fromtimestamp(0, UTC)
_FIRST, _LAST = datetime(1900, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> timedelta:
    """Read "90s", "5m", "1h30m", "30d" or "4w".

    Months and years have no fixed length and are refused.
    """
    parts = _PART.findall(text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise BadInput(f"duration {text!r} is not like 30s, 5m, 1h30m, 30d or 4w")
    seconds = sum(float(n) * _UNITS[u] for n, u in parts)
    if seconds > _LONGEST_S:
        raise BadInput(f"duration {text!r} is longer than a hundred years")
    return timedelta(seconds=seconds)


@lru_cache(maxsize=4096)
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
    """Read RFC 3339 ("2026-11-30T18:00:00Z") or unix seconds ("1796061254.17"), as UTC.

    From 1900 to 2262: beyond, neither Python nor the engine can add a window to it.
    """
    try:
        moment = _moment(text)
        if _FIRST <= moment < _LAST:
            return moment.astimezone(UTC)
    except OverflowError:
        pass
    raise BadInput(f"time {text!r} is not between the years 1900 and 2262")


def _moment(text: str) -> datetime:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isfinite(seconds):
        return _EPOCH + timedelta(seconds=seconds)
    try:
        # A "+" of an offset arrives as a space from query strings that were not escaped.
        moment = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text)
    except ValueError as error:
        raise BadInput(f"time {text!r} is neither RFC 3339 nor unix seconds") from error
    if moment.tzinfo is None:
        raise BadInput(f"time {text!r} has no zone: add Z or an offset such as +02:00")
    return moment


def format_instant(moment: datetime) -> str:
    """Write RFC 3339 in UTC with milliseconds: 2026-11-30T18:00:00.000Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def floor_to(moment: datetime, step: timedelta) -> datetime:
    """Round down to a multiple of `step` since the epoch."""
    size = round(step.total_seconds())
    return datetime.fromtimestamp(int(moment.timestamp() // size) * size, UTC)
