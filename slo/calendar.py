"""Calendar periods in the time zone they are agreed in. Pure.

A period begins at the first instant of its first local day, which is not always 00:00: where the
clocks go forward at midnight, that day begins at 01:00. Days of 23 and 25 hours, months of 28 to
31 days and leap years follow from the zone's rules (IANA).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from base.errors import BadInput


class Period(StrEnum):
    """How long a budget lasts before it begins anew; a week begins on Monday (ISO 8601)."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class Calendar:
    """A budget that begins anew with each period of a zone's calendar."""

    period: Period
    zone: str = "UTC"

    def bounds(self, at: datetime) -> tuple[datetime, datetime]:
        """Find the period that holds an instant: [start, end), both UTC."""
        zone = ZoneInfo(self.zone)
        day = at.astimezone(zone).date()
        start = _first_day(self.period, day)
        return _day_begins(start, zone), _day_begins(_next(self.period, start), zone)


def read_calendar(period: str, zone: str) -> Calendar:
    """Make a calendar of texts; BadInput names what is wrong."""
    if period not in set(Period):
        raise BadInput(f"period {period!r} is not one of {', '.join(Period)}")
    check_zone(zone)
    return Calendar(Period(period), zone)


def check_zone(zone: str) -> None:
    """Refuse what is no time zone."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadInput(f"zone {zone!r} is not an IANA time zone such as Europe/Berlin") from error


def _first_day(period: Period, day: date) -> date:
    match period:
        case Period.DAY:
            return day
        case Period.WEEK:
            return day - timedelta(days=day.weekday())
        case Period.MONTH:
            return day.replace(day=1)
        case Period.QUARTER:
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case Period.YEAR:
            return day.replace(month=1, day=1)


def _next(period: Period, start: date) -> date:
    """Find the first day of the period after the one that begins on `start`."""
    match period:
        case Period.DAY:
            return start + timedelta(days=1)
        case Period.WEEK:
            return start + timedelta(days=7)
        case Period.MONTH:
            return _first_day(period, start + timedelta(days=31))
        case Period.QUARTER:
            return _first_day(period, start + timedelta(days=92))
        case Period.YEAR:
            return start.replace(year=start.year + 1)


def _day_begins(day: date, zone: ZoneInfo) -> datetime:
    # A midnight that the clocks skip is read with the offset before it (fold 0, PEP 495), which
    # is the instant of the change; one that they repeat is the earlier of the two.
    return datetime.combine(day, time(), zone).astimezone(UTC)
