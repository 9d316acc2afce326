"""Calendar windows against days that no clock makes easy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import BadInput
from slo.calendar import Calendar, Period, read_calendar

HOUR = timedelta(hours=1)

# zone, period, an instant of it, its start and end in UTC
GOLDEN = [
    # New York: 8 March 2026 has 23 hours, 1 November 25.
    ("America/New_York", "day", "2026-03-08T12:00Z", "2026-03-08T05:00Z", "2026-03-09T04:00Z"),
    ("America/New_York", "day", "2026-11-01T12:00Z", "2026-11-01T04:00Z", "2026-11-02T05:00Z"),
    ("America/New_York", "month", "2026-03-31T23:00Z", "2026-03-01T05:00Z", "2026-04-01T04:00Z"),
    ("America/New_York", "week", "2026-03-08T12:00Z", "2026-03-02T05:00Z", "2026-03-09T04:00Z"),
    ("America/New_York", "quarter", "2026-02-01T00:00Z", "2026-01-01T05:00Z", "2026-04-01T04:00Z"),
    # Berlin: 29 March 2026 has 23 hours, 25 October 25; the last instant of February is in it.
    ("Europe/Berlin", "day", "2026-03-29T12:00Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
    ("Europe/Berlin", "day", "2026-10-25T12:00Z", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
    ("Europe/Berlin", "month", "2026-02-28T22:59Z", "2026-01-31T23:00Z", "2026-02-28T23:00Z"),
    ("Europe/Berlin", "month", "2026-02-28T23:00Z", "2026-02-28T23:00Z", "2026-03-31T22:00Z"),
    ("Europe/Berlin", "year", "2026-12-31T22:59Z", "2025-12-31T23:00Z", "2026-12-31T23:00Z"),
    # A leap February, and the one after it, on the other side of the date line.
    ("Pacific/Auckland", "month", "2028-02-29T00:00Z", "2028-01-31T11:00Z", "2028-02-29T11:00Z"),
    ("Pacific/Auckland", "month", "2029-02-15T00:00Z", "2029-01-31T11:00Z", "2029-02-28T11:00Z"),
    ("Pacific/Auckland", "month", "2026-04-30T11:59Z", "2026-03-31T11:00Z", "2026-04-30T12:00Z"),
    ("UTC", "month", "2028-02-29T23:59Z", "2028-02-01T00:00Z", "2028-03-01T00:00Z"),
    ("UTC", "quarter", "2026-12-31T23:59Z", "2026-10-01T00:00Z", "2027-01-01T00:00Z"),
    ("UTC", "week", "2027-01-01T00:00Z", "2026-12-28T00:00Z", "2027-01-04T00:00Z"),
    # Cairo skips midnight: 24 April 2026 begins at 01:00.
    ("Africa/Cairo", "day", "2026-04-24T12:00Z", "2026-04-23T22:00Z", "2026-04-24T21:00Z"),
    # Havana repeats the hour after midnight: 1 November 2026 begins with the first 00:00.
    ("America/Havana", "day", "2026-11-01T12:00Z", "2026-11-01T04:00Z", "2026-11-02T05:00Z"),
]


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(("zone", "period", "at", "start", "end"), GOLDEN)
def test_a_period_begins_and_ends_with_its_zones_days(
    zone: str, period: str, at: str, start: str, end: str
) -> None:
    assert read_calendar(period, zone).bounds(instant(at)) == (instant(start), instant(end))


@pytest.mark.parametrize(
    ("zone", "month", "hours"),
    [
        ("America/New_York", "2026-03", 743),  # 44,580 minutes
        ("America/New_York", "2026-11", 721),
        ("Europe/Berlin", "2026-03", 743),
        ("Europe/Berlin", "2026-10", 745),
        ("Asia/Kolkata", "2026-02", 672),
        ("Asia/Kolkata", "2028-02", 696),
    ],
)
def test_a_month_has_as_many_hours_as_its_clocks_showed(zone: str, month: str, hours: int) -> None:
    start, end = Calendar(Period.MONTH, zone).bounds(instant(f"{month}-15T12:00Z"))

    assert end - start == hours * HOUR


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from(Period),
    st.sampled_from(sorted(available_timezones())),
)
def test_periods_hold_their_instants_and_follow_each_other(
    at: datetime, period: Period, zone: str
) -> None:
    calendar = Calendar(period, zone)

    start, end = calendar.bounds(at)

    assert start <= at < end
    assert calendar.bounds(start) == (start, end)
    assert calendar.bounds(end)[0] == end
    assert calendar.bounds(start - timedelta(microseconds=1))[1] == start


@pytest.mark.parametrize(
    ("period", "zone", "message"),
    [
        ("fortnight", "UTC", "day, week, month, quarter, year"),
        ("month", "Mars/Base", "Europe/Berlin"),
        ("month", "../etc/passwd", "Europe/Berlin"),
        ("month", "", "Europe/Berlin"),
    ],
)
def test_what_is_no_calendar_is_refused(period: str, zone: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_calendar(period, zone)
