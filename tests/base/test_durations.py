from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.durations import (
    floor_to,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)
from base.errors import BadInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("1h30m", 5400), ("30d", 2_592_000), ("4w", 2_419_200)],
)
def test_a_duration_is_read_as_it_is_written(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1M", "1y", "5m!", "-5m"])
def test_a_duration_without_a_fixed_length_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="duration"):
        parse_duration(text)


@given(st.integers(min_value=1, max_value=10**12))
def test_a_duration_survives_being_written_and_read(milliseconds: int) -> None:
    span = timedelta(milliseconds=milliseconds)

    assert parse_duration(format_duration(span)) == span


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T18:00:00Z",
        "2026-11-30T19:00:00+01:00",
        "2026-11-30T19:00:00 01:00",  # a query string turned the plus into a space
        "1796061600",
        "1796061600.0",
    ],
)
def test_an_instant_is_rfc_3339_or_unix_seconds(text: str) -> None:
    assert parse_instant(text) == datetime(2026, 11, 30, 18, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01T00:00:00Z", "inf", "nan"])
def test_nonsense_is_not_an_instant(text: str) -> None:
    with pytest.raises(BadInput, match="neither RFC 3339 nor unix seconds"):
        parse_instant(text)


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+10:00",
        "1899-12-31T23:59:59Z",
        "2262-01-01T00:00:00Z",
        "9999-12-31T23:59:59-12:00",
        "-62135596800",
        "1e18",
        "1e300",
    ],
)
def test_an_instant_that_nothing_can_be_reckoned_with_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not between the years 1900 and 2262"):
        parse_instant(text)


@pytest.mark.parametrize("text", ["99999999d", "9" * 400 + "d"])
def test_a_duration_beyond_a_hundred_years_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="longer than a hundred years"):
        parse_duration(text)


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(BadInput, match="has no zone"):
        parse_instant("2026-11-30T18:00:00")


def test_instants_are_written_in_utc_with_milliseconds() -> None:
    moment = datetime(2026, 11, 30, 18, 0, 0, 123_456, tzinfo=UTC)

    assert format_instant(moment) == "2026-11-30T18:00:00.123Z"


@given(
    st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)),  # noqa: DTZ001
    st.sampled_from([10, 60, 3600, 86_400]),
)
def test_a_moment_lies_in_the_bucket_it_is_rounded_down_to(moment: datetime, step: int) -> None:
    aware = moment.replace(tzinfo=UTC)
    size = timedelta(seconds=step)

    bucket = floor_to(aware, size)

    assert bucket <= aware < bucket + size
    assert bucket.timestamp() % step == 0
