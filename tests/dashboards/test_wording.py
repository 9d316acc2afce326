"""Numbers are short, have units, and are a dash where nothing is known."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dashboards import wording


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (wording.count(0), "0"),
        (wording.count(950), "950"),
        (wording.count(12_345), "12.3k"),
        (wording.count(999_999), "1M"),
        (wording.count(2.5e9), "2.5G"),
        (wording.rate(12.0), "12/s"),
        (wording.rate(0.06), "3.6/min"),
        (wording.rate(0.001), "3.6/h"),
        (wording.dollars(0), "$0"),
        (wording.dollars(12345.6), "$12,346"),
        (wording.dollars(3.14159), "$3.14"),
        (wording.dollars(0.00081), "$0.00081"),
        (wording.dollars(0.0000012), "$1.2e-06"),
        (wording.percent(0.98765, 2), "98.77 %"),
        (wording.percent(0.99999, 1), ">99.9 %"),
        (wording.percent(1.0, 1), "100.0 %"),
        (wording.millis(0.25), "250 µs"),
        (wording.millis(42), "42 ms"),
        (wording.millis(1240), "1.24 s"),
        (wording.millis(185_000), "3m 5s"),
        (wording.span(timedelta(days=3, hours=4, minutes=5)), "3d 4h"),
        (wording.span(timedelta(0)), "0s"),
        (wording.burn(14.42), "14×"),
        (wording.burn(1.44), "1.4×"),
    ],
)
def test_a_number_is_written_as_people_read_it(said: str, meant: str) -> None:
    assert said == meant


def test_unknown_is_a_dash_and_never_a_zero() -> None:
    for write in (
        wording.count,
        wording.dollars,
        wording.percent,
        wording.millis,
        wording.span,
        wording.burn,
        wording.rate,
    ):
        assert write(None) == "–"
