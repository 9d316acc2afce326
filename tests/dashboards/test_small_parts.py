"""Rollup choice, memory, refreshes and the spend frame."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from dash import no_update

from base.clock import ManualClock
from base.errors import Retryable
from cost.ledger import Existence, Occupancy, Use, bill_hours, charge
from cost.money import NS_PER_HOUR
from cost.prices import GpuPrice, PriceBook
from cost.read import Window
from dashboards.memo import Memo
from dashboards.queries import quantile
from dashboards.refresh import only_changed
from dashboards.rollups import plan
from dashboards.spend import spend_frame

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("length", "table"),
    [
        (timedelta(minutes=15), "rollup_10s"),
        (timedelta(hours=1), "rollup_10s"),
        (timedelta(hours=24), "rollup_1m"),
        (timedelta(days=30), "rollup_1h"),
        (timedelta(days=300), "rollup_1h"),
    ],
)
def test_a_window_is_read_from_the_rollup_that_fits_it(length: timedelta, table: str) -> None:
    chosen = plan(Window(NOW - length, NOW), NOW)

    assert chosen.table == table
    assert length / chosen.step <= 310


def test_a_short_window_long_ago_is_read_from_what_is_still_kept() -> None:
    old = NOW - timedelta(days=10)
    ancient = NOW - timedelta(days=60)

    assert plan(Window(old, old + timedelta(minutes=15)), NOW).table == "rollup_1m"
    assert plan(Window(ancient, ancient + timedelta(minutes=15)), NOW).table == "rollup_1h"


def test_a_quantile_is_within_its_buckets_width() -> None:
    hist = {64: 90, 88: 10}  # 2^8 = 256 ms and 2^11 = 2048 ms

    assert quantile(hist, 0.5) == pytest.approx(256, rel=0.1)
    assert quantile(hist, 0.95) == pytest.approx(2048, rel=0.1)
    assert quantile({}, 0.5) is None


def test_an_answer_is_kept_for_as_long_as_asked_and_no_longer() -> None:
    clock = ManualClock(NOW)
    memo: Memo[int] = Memo(clock)
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    keep = timedelta(seconds=10)
    assert memo.get("a", keep, make) == memo.get("a", keep, make) == 1
    clock.advance(timedelta(seconds=11))
    assert memo.get("a", keep, make) == 2


def test_an_answer_in_the_making_is_not_made_twice() -> None:
    memo: Memo[int] = Memo(ManualClock(NOW))
    begun, go = threading.Event(), threading.Event()
    made: list[int] = []

    def make() -> int:
        made.append(1)
        begun.set()
        go.wait(30)
        return 7

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(memo.get, "a", timedelta(hours=1), make)
        begun.wait(30)
        second = threads.submit(memo.get, "a", timedelta(hours=1), make)
        go.set()

        assert first.result(30) == second.result(30) == 7
    assert made == [1]


def test_a_failure_is_not_remembered() -> None:
    memo: Memo[int] = Memo(ManualClock(NOW))

    def fail() -> int:
        raise Retryable("the store is busy")

    with pytest.raises(Retryable):
        memo.get("a", timedelta(hours=1), fail)
    assert memo.get("a", timedelta(hours=1), lambda: 7) == 7


def test_memory_is_bounded() -> None:
    memo: Memo[int] = Memo(ManualClock(NOW), size=2)

    for key in "abc":
        memo.get(key, timedelta(hours=1), lambda: 1)

    assert list(memo._kept) == ["b", "c"]


def test_a_page_is_sent_only_what_changed() -> None:
    first = only_changed(None, {"tiles": ["1"], "chart": {"y": [1]}})
    second = only_changed(first[-1], {"tiles": ["1"], "chart": {"y": [2]}})

    assert first[:2] == (["1"], {"y": [1]})
    assert second[0] is no_update
    assert second[1] == {"y": [2]}


def test_spend_is_per_hour_even_where_the_window_cuts_an_hour() -> None:
    hour = int(NOW.timestamp()) // 3600
    book = PriceBook(gpus=(GpuPrice("h100", date(2026, 1, 1), Decimal(4)),))
    half = NS_PER_HOUR // 2
    exists = [Existence("r0", hour - 1, "m", "h100", 1, half)]
    bills = bill_hours(exists, [Occupancy("r0", hour - 1, half // 2, 10)], book)
    ledger = charge(bills, [Use("r0", hour - 1, ("acme",), 10)], [], book)

    frame = spend_frame(ledger, Window(NOW - timedelta(minutes=30), NOW), ("tenant",))

    assert frame.to_dict("list") == {"acme": [2.0], "idle": [2.0]}
