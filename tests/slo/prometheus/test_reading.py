"""What is counted of counters, histograms, gauges and queries."""

from __future__ import annotations

import math

import pytest

from base.errors import Permanent
from slo.model import Slo
from slo.prometheus.reading import Memory, Reader, Reading
from slo.prometheus.tally import Judged, settle
from tests.slo.prometheus.made import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    T0,
    counters,
    every,
    gauge,
    histogram,
    make_slo,
    queries,
)
from tests.slo.prometheus.tsdb import Tsdb

S0 = T0 // 1000
API = {"job": "api", "instance": "a:1"}


def read(tsdb: Tsdb, slo: Slo, start: int = T0, end: int = T0 + 10 * MINUTE) -> Reading:
    reader = Reader(slo, tsdb)
    return reader.read(reader.remember(start), start, end, end)


def sums(reading: Reading) -> tuple[int, int]:
    return (
        sum(each.good for each in reading.judged.values()),
        sum(each.bad for each in reading.judged.values()),
    )


def test_an_increase_belongs_to_the_later_sample() -> None:
    tsdb = Tsdb()
    tsdb.put(
        "requests_total", API | {"code": "200"}, every(15 * SECOND, 10, 13, 20, start=T0 - 5000)
    )
    tsdb.put("requests_total", API | {"code": "500"}, every(15 * SECOND, 1, 1, 3, start=T0 - 5000))

    reading = read(tsdb, make_slo(counters()))

    assert reading.judged == {((), S0 + 10): Judged(3, 0), ((), S0 + 20): Judged(7, 2)}


def test_groups_are_the_values_of_labels_and_an_absent_one_is_empty() -> None:
    tsdb = Tsdb()
    for number, handler in enumerate(("/a", "/b", None)):
        labels = API | {"code": "200"} | ({"handler": handler} if handler else {})
        tsdb.put("requests_total", labels, every(MINUTE, 0, number + 1))

    reading = read(tsdb, make_slo(counters(), group_by=("handler", "code")))

    assert {group: each.good for (group, _), each in reading.judged.items()} == {
        ("/a", "200"): 1, ("/b", "200"): 2, ("", "200"): 3,
    }  # fmt: skip


def test_a_reset_counts_what_the_counter_shows_after_it() -> None:
    tsdb = Tsdb()
    tsdb.put("requests_total", API | {"code": "200"}, every(15 * SECOND, 100, 110, 4, 9))

    assert sums(read(tsdb, make_slo(counters()))) == (10 + 4 + 5, 0)


def test_a_counter_born_while_its_target_was_scraped_counts_from_zero() -> None:
    tsdb = Tsdb()
    tsdb.put("requests_total", API | {"code": "200"}, every(15 * SECOND, *range(0, 400, 10)))
    tsdb.put(
        "requests_total", API | {"code": "500"}, every(15 * SECOND, 50, 52, start=T0 + 5 * MINUTE)
    )

    assert sums(read(tsdb, make_slo(counters())))[1] == 52


def test_up_bears_witness_where_no_sibling_does() -> None:
    tsdb = Tsdb()
    tsdb.put(
        "requests_total", API | {"code": "500"}, every(15 * SECOND, 50, 52, start=T0 + 5 * MINUTE)
    )
    slo = make_slo(counters())

    assert sums(read(tsdb, slo)) == (0, 2)
    tsdb.put("up", API, every(15 * SECOND, *[0] * 30))
    assert sums(read(tsdb, slo)) == (0, 2)
    tsdb.put("up", API, {T0 + 4 * MINUTE: 1})
    assert sums(read(tsdb, slo)) == (0, 52)


@pytest.mark.parametrize("witness", ["process_start_time_seconds", "requests_created"])
@pytest.mark.parametrize(("ago_s", "bad"), [(60, 52), (3600, 2)])
def test_a_process_that_has_just_started_counts_from_zero(
    witness: str, ago_s: int, bad: int
) -> None:
    tsdb, at = Tsdb(), T0 + 5 * MINUTE
    labels = API | {"code": "500"}
    tsdb.put("requests_total", labels, every(15 * SECOND, 50, 52, start=at))
    of = labels if witness == "requests_created" else API
    tsdb.put(witness, of, {at: at / 1000 - ago_s})

    assert sums(read(tsdb, make_slo(counters()))) == (0, bad)


def test_a_counter_that_was_only_not_looked_at_is_no_birth() -> None:
    tsdb = Tsdb()
    tsdb.put("requests_total", API | {"code": "200"}, every(15 * SECOND, 1_000_000, 1_000_003))

    reading = read(tsdb, make_slo(counters()))

    assert sums(reading) == (3, 0)
    assert reading.unknown == 1


def test_a_counter_that_comes_back_after_hours_was_not_born() -> None:
    tsdb = Tsdb()
    steady = every(MINUTE, *range(300), start=T0 - 240 * MINUTE)
    tsdb.put("requests_total", API | {"code": "200"}, steady)
    tsdb.put("requests_total", API | {"code": "500"}, {T0 - 3 * HOUR: 900, T0 + MINUTE: 1000})

    assert sums(read(tsdb, make_slo(counters()))) == (10, 0)
    del tsdb.series[next(key for key in tsdb.series if ("code", "500") in key)][T0 - 3 * HOUR]
    assert sums(read(tsdb, make_slo(counters()))) == (10, 1000)


def test_a_gap_within_the_hour_is_counted_when_it_ends() -> None:
    tsdb = Tsdb()
    tsdb.put("requests_total", API | {"code": "200"}, {T0 - 50 * MINUTE: 5, T0 + MINUTE: 105})

    assert sums(read(tsdb, make_slo(counters()))) == (100, 0)


def test_an_increase_over_more_than_an_hour_is_not_counted_anywhere() -> None:
    tsdb = Tsdb()
    samples = {T0: 5.0, T0 + 2 * HOUR: 105.0, T0 + 2 * HOUR + MINUTE: 106.0}
    tsdb.put("requests_total", API | {"code": "200"}, samples)

    reading = read(tsdb, make_slo(counters()), T0, T0 + 3 * HOUR)

    assert sums(reading) == (1, 0)
    assert reading.unknown == 2


def test_numbers_that_are_none_are_left_out() -> None:
    tsdb = Tsdb()
    samples = every(15 * SECOND, 10, math.nan, math.inf, -math.inf, 14)
    tsdb.put("requests_total", API | {"code": "200"}, samples)

    assert sums(read(tsdb, make_slo(counters()))) == (4, 0)


def test_halves_add_up_to_whole_events() -> None:
    tsdb = Tsdb()
    tsdb.put(
        "requests_total", API | {"code": "200"}, every(15 * SECOND, *(n / 3 for n in range(31)))
    )

    assert sums(read(tsdb, make_slo(counters()))) == (10, 0)


def test_of_two_servers_with_the_same_targets_one_is_taken() -> None:
    tsdb = Tsdb()
    for replica, shift in (("0", 0), ("1", 7 * SECOND)):
        labels = API | {"code": "200", "replica": replica}
        samples = every(15 * SECOND, *range(0, 400, 10), start=T0 + shift)
        tsdb.put("requests_total", labels, samples)
    reader = Reader(make_slo(counters(), group_by=("replica",)), tsdb, ("replica",))

    reading = reader.read(reader.remember(T0), T0, T0 + 10 * MINUTE, T0)

    assert sums(reading) == (390, 0)


def test_the_other_server_stands_in_while_one_is_silent() -> None:
    tsdb = Tsdb()
    whole = {T0 + n * 15 * SECOND: n * 10.0 for n in range(160)}
    first = {at: value for at, value in whole.items() if not 10 < (at - T0) / MINUTE < 25}
    second = {at + 2 * SECOND: value - 1 for at, value in whole.items()}  # behind: a skewed clock
    tsdb.put("requests_total", API | {"code": "200", "replica": "0"}, first)
    tsdb.put("requests_total", API | {"code": "200", "replica": "1"}, second)
    reader = Reader(make_slo(counters()), tsdb, ("replica",))

    reading = reader.read(Memory(T0), T0, T0 + 40 * MINUTE, T0)

    assert sums(reading) == (1590, 0)
    inside = sum(each.good for (_, at), each in reading.judged.items() if 660 <= at - S0 < 1500)
    assert inside == pytest.approx(560, abs=20)


def test_a_failure_seen_before_its_request_waits_for_it() -> None:
    tsdb = Tsdb()
    tsdb.put("requests_total", API, every(15 * SECOND, 10, 10, 11, 12))
    tsdb.put("errors_total", API, every(15 * SECOND, 0, 1, 1, 1))

    reading = read(tsdb, make_slo(counters(part="errors_total")))

    assert reading.judged == {((), S0 + 30): Judged(0, 1), ((), S0 + 40): Judged(1, 0)}
    assert reading.impossible == ()


def test_a_part_larger_than_its_total_is_no_fact() -> None:
    tsdb = Tsdb()
    tsdb.put("requests_total", API, every(15 * SECOND, *[5] * 20, *range(5, 60)))
    tsdb.put("errors_total", API, every(15 * SECOND, *range(0, 40, 2)))

    reading = read(tsdb, make_slo(counters(part="errors_total")), end=T0 + 20 * MINUTE)

    (impossible,) = reading.impossible
    assert (impossible.block, impossible.total, impossible.part) == (S0, 19, 38)
    assert "a part is larger than its total" in str(impossible)
    assert all(at >= S0 + 600 for _, at in reading.judged)
    assert all(minute >= S0 + 600 for minute in reading.minutes)
    assert sums(reading) == (35, 0)


def test_good_that_has_not_arrived_yet_is_not_bad() -> None:
    tsdb = Tsdb()
    tsdb.put("requests_total", API, every(15 * SECOND, 0, 10, 20))
    tsdb.put("successes_total", API, every(15 * SECOND, 0, 10))

    reading = read(tsdb, make_slo(counters(part="successes_total", is_="good")))

    assert sums(reading) == (10, 0)


def test_a_part_outside_of_its_total_is_said() -> None:
    tsdb = Tsdb()
    tsdb.put("requests_total", API | {"code": "200"}, every(15 * SECOND, 0, 10, 20))
    tsdb.put("requests_total", API | {"code": "500"}, every(15 * SECOND, 0, 1, 2))
    total = 'requests_total{code="200"}'

    reading = read(tsdb, make_slo(counters(total, 'requests_total{code="500"}')))

    assert '1 series of requests_total{code="500"} are not in' in reading.notes[0]


def buckets(tsdb: Tsdb, counts: dict[str, list[float]], **labels: str) -> None:
    for le, values in counts.items():
        tsdb.put("ttft_seconds_bucket", API | labels | {"le": le}, every(15 * SECOND, *values))


@pytest.mark.parametrize("spelled", ["0.5", "0.50", "5e-01"])
def test_a_histogram_counts_what_is_at_most_the_threshold(spelled: str) -> None:
    tsdb = Tsdb()
    buckets(tsdb, {spelled: [0, 6, 9], "1.0": [0, 9, 15], "+Inf": [0, 10, 20]})

    assert sums(read(tsdb, make_slo(histogram(0.5)))) == (9, 11)


def test_all_buckets_of_a_histogram_start_again_together() -> None:
    tsdb = Tsdb()
    buckets(tsdb, {"0.5": [20, 30], "+Inf": [100, 50]})

    assert sums(read(tsdb, make_slo(histogram(0.5)))) == (30, 20)


def test_a_threshold_between_buckets_names_its_neighbours() -> None:
    tsdb = Tsdb()
    tsdb.put("ttft_seconds_bucket", API | {"le": "0.3"}, every(MINUTE, *range(10)))
    tsdb.put("ttft_seconds_bucket", API | {"le": "0.75"}, every(MINUTE, *range(10)))
    tsdb.put("ttft_seconds_bucket", API | {"le": "+Inf"}, every(MINUTE, *range(10)))

    with pytest.raises(Permanent, match=r"is not a bucket of ttft_seconds.* are 0.3 and 0.75"):
        read(tsdb, make_slo(histogram(0.5)))
    with pytest.raises(Permanent, match=r"the nearest is 0.3"):
        read(tsdb, make_slo(histogram(0.2)))


def test_a_target_without_the_bucket_is_left_out_and_said() -> None:
    tsdb = Tsdb()
    buckets(tsdb, {"0.5": [0, 6], "+Inf": [0, 10]})
    buckets(tsdb, {"1.0": [0, 6], "+Inf": [0, 10]}, instance="b:1")

    reading = read(tsdb, make_slo(histogram(0.5)))

    assert sums(reading) == (6, 4)
    assert reading.notes == ("1 series have no bucket at 0.5",)


def test_a_bucket_that_was_not_scraped_yet_leaves_its_moment_out() -> None:
    tsdb = Tsdb()
    buckets(tsdb, {"0.5": [0, 6], "+Inf": [0, 10, 20]})

    assert sums(read(tsdb, make_slo(histogram(0.5)))) == (6, 4)


def test_every_sample_of_a_gauge_is_an_event() -> None:
    tsdb = Tsdb()
    tsdb.put("up", API, every(15 * SECOND, 1, 1, 0, math.nan, 1, start=T0 + 1))

    reading = read(tsdb, make_slo(gauge()))

    assert sums(reading) == (3, 1)
    assert reading.minutes == {S0: (T0 + 1, T0 + 30_001), S0 + 60: (T0 + 60_001, T0 + 60_001)}


def test_minutes_between_samples_that_are_near_are_alive_and_a_gap_is_not() -> None:
    tsdb = Tsdb()
    tsdb.put("up", API, {T0 - MINUTE: 1, T0 + 2 * MINUTE: 1, T0 + 9 * MINUTE: 1})

    minutes = read(tsdb, make_slo(gauge())).minutes

    assert sorted((at - S0) // 60 for at in minutes) == [0, 1, 2, 9]


def test_answers_of_queries_are_made_whole_without_losing_any() -> None:
    tsdb = Tsdb()
    tsdb.answers["t[1m]"] = lambda at: [({"handler": "/a"}, 1.5)]
    tsdb.answers["b[1m]"] = lambda at: [({"handler": "/a"}, 0.4)] if at > T0 + MINUTE else []
    slo = make_slo(queries("t[$window]", "b[$window]"), group_by=("handler",))

    reading = read(tsdb, slo)

    assert sums(reading) == (15 - 4, 4)
    assert {at % 60 for _, at in reading.judged} == {50}
    assert len(reading.minutes) == 10


def test_a_ratio_is_of_its_total_and_what_is_no_number_is_left_out() -> None:
    tsdb = Tsdb()
    tsdb.answers["t[5m]*300"] = lambda at: [({}, 10)]
    tsdb.answers["r[5m]"] = lambda at: [({}, 0.2 if at == T0 + 5 * MINUTE else math.nan)]
    slo = make_slo(queries("t[$window]*$window_seconds", "r[$window]", "ratio", 5))

    reading = read(tsdb, slo)

    assert sums(reading) == (8, 2)
    assert reading.unknown == 1
    assert sorted((at - S0) // 60 for at in reading.minutes) == [0, 1, 2, 3, 4]


def test_a_ratio_above_one_is_no_fact() -> None:
    tsdb = Tsdb()
    tsdb.answers["t1m"] = lambda at: [({}, 10)]
    tsdb.answers["r1m"] = lambda at: [({}, 1.2)]

    reading = read(tsdb, make_slo(queries("t$window", "r$window", "ratio")))

    assert sums(reading) == (0, 0)
    assert len(reading.impossible) == 1
    assert reading.minutes == {}


def test_native_histograms_count_whole_buckets() -> None:
    class Native(Tsdb):
        def samples(self, selector: str, start: int, end: int) -> list[dict[str, object]]:
            def at(count: int, *buckets: tuple[str, str, int]) -> dict[str, object]:
                rows = [[0, low, high, str(number)] for low, high, number in buckets]
                return {"count": str(count), "sum": "1", "buckets": rows}

            first = at(10, ("0.1", "0.5", 6), ("0.5", "2", 4))
            second = at(20, ("0.1", "0.5", 9), ("0.5", "2", 7), ("2", "4", 4))
            histograms = [[T0 / 1000, first], [T0 / 1000 + 15, second]]
            return [{"metric": API, "histograms": histograms}]

        def instant(self, query: str, at: int) -> list[dict[str, object]]:
            return []

    slo = make_slo(type(histogram(1))(histogram(1).selector, 1, native=True))

    assert sums(read(Native(), slo)) == (3, 7)


def test_a_day_without_samples_is_nothing_and_not_zero() -> None:
    reading = read(Tsdb(), make_slo(counters()), T0, T0 + DAY)

    assert (reading.judged, reading.minutes) == ({}, {})


@pytest.mark.parametrize(
    ("total", "part", "settled"),
    [
        ([1, 1], [0, 1], [0, 1]),
        ([0, 1], [1, 0], [0, 1]),
        ([2, 0], [0, 2], [2, 0]),
        ([3, 1, 0], [1, 0, 3], [3, 1, 0]),
        ([1], [2], None),
        ([], [], []),
    ],
)
def test_a_part_is_fitted_into_its_total(
    total: list[int], part: list[int], settled: list[int] | None
) -> None:
    assert settle(total, part) == settled
