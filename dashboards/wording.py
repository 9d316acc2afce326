"""Numbers as people read them: short, with units, and a dash for what is not known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

UNKNOWN = "–"


def count(value: float | None) -> str:
    """Write 950, 12.3k, 4.56M."""
    if value is None:
        return UNKNOWN
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.99995:
            return (
                f"{value / size:.3g}{unit}"
                if abs(value) < size * 999.5
                else f"{value / size:,.0f}{unit}"
            )
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def rate(per_second: float | None) -> str:
    """Write a rate in the unit in which it is more than one: 12/s, 3.6/min, 5/h."""
    if per_second is None:
        return UNKNOWN
    for factor, unit in ((1, "s"), (60, "min")):
        if per_second * factor >= 1:
            return f"{count(per_second * factor)}/{unit}"
    return f"{per_second * 3600:.3g}/h"


def dollars(value: float | None) -> str:
    """Write money with as many decimals as its size needs."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    if size == 0:
        return "$0"
    if size >= 1000:
        return f"${value:,.0f}"
    if size >= 1:
        return f"${value:,.2f}"
    if size >= 0.01:
        return f"${value:.3f}"
    return f"${value:.2g}" if size >= 1e-4 else f"${value:.1e}"


def percent(value: float | None, digits: int = 1) -> str:
    """Write a fraction as a percentage that never rounds up to 100 %."""
    if value is None:
        return UNKNOWN
    text = f"{value * 100:.{digits}f}"
    if value < 1 and text == f"{100:.{digits}f}":
        return f">{100 - 10**-digits:.{digits}f} %"
    return f"{text} %"


def millis(value: float | None) -> str:
    """Write a time given in milliseconds: 850 µs, 42 ms, 1.24 s, 3m 5s."""
    if value is None:
        return UNKNOWN
    if value < 1:
        return f"{value * 1000:.0f} µs"
    if value < 1000:
        return f"{value:.3g} ms" if value < 100 else f"{value:.0f} ms"
    if value < 100_000:
        return f"{value / 1000:.3g} s"
    return span(timedelta(milliseconds=value))


def hours(value: float | None) -> str:
    """Write 0.25 h, 13.3 h."""
    if value is None:
        return UNKNOWN
    return f"{value:.2f} h" if value < 10 else f"{value:.1f} h"


def span(value: timedelta | None) -> str:
    """Write a duration with its two largest units: 3d 4h, 12m 5s."""
    if value is None:
        return UNKNOWN
    left = int(abs(value.total_seconds()))
    parts = []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return ("-" if value < timedelta(0) else "") + (" ".join(parts[:2]) or "0s")


def burn(value: float | None) -> str:
    """Write a burn rate: 14.4×."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f}×" if value >= 10 else f"{value:.1f}×"


def moment(value: datetime | None, now: datetime) -> str:
    """Write a time of day, with the date only where it is not today's."""
    if value is None:
        return UNKNOWN
    value = value.astimezone(UTC)
    return f"{value:%H:%M:%S}" if value.date() == now.date() else f"{value:%d %b %H:%M}"
