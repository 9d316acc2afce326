"""Sums from kept hours and days equal sums of what happened, whatever changed in between."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from slo.spending.cell import Cell
from slo.spending.hours import HourBook
from slo.spending.source import Hour

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAYS = 9


class Happened:
    """Dollars by minute; counts how often whole hours were read."""

    def __init__(self, amounts: dict[int, int]) -> None:
        self.amounts = amounts
        self.reads: list[tuple[datetime, datetime]] = []

    def read(self, start: datetime, end: datetime, at: datetime) -> Mapping[Hour, Cell]:
        assert start < end
        assert end <= at
        self.reads.append((start, end))
        found: dict[Hour, Cell] = {}
        for minute, amount in self.amounts.items():
            if start <= EPOCH + MINUTE * minute < end:
                cell = found.setdefault(minute // 60, Cell())
                cell.charged[("a",), ""] = cell.charged.get((("a",), ""), 0) + amount
        return found

    def sum(self, start: datetime, end: datetime) -> int:
        return sum(
            amount
            for minute, amount in self.amounts.items()
            if start <= EPOCH + MINUTE * minute < end
        )


def spent(cell: Cell | None) -> int:
    assert cell is not None
    return sum(cell.charged.values())


minutes = st.integers(0, DAYS * 1440 - 1)
amounts = st.dictionaries(minutes, st.integers(1, 10**6), max_size=60)
steps = st.lists(st.tuples(amounts, minutes, st.sets(minutes, max_size=4)), min_size=1, max_size=4)


@settings(deadline=None, max_examples=60)
@given(amounts, steps)
def test_sums_are_of_what_happened(
    before: dict[int, int], changes: list[tuple[dict[int, int], int, set[int]]]
) -> None:
    world = Happened(before)
    book = HourBook(world.read)
    for changed, minute, lengths in changes:
        world.amounts |= changed
        for at in changed:
            book.forget((at // 60, at // 60 + 1))
        now = EPOCH + MINUTE * minute
        starts = [now - MINUTE * length for length in lengths]

        sums = book.sums(starts, now)

        assert {start: spent(cell) for start, cell in sums.cells.items()} == {
            start: world.sum(start, now) for start in starts
        }


def test_a_month_is_read_once_and_then_an_hour_at_a_time() -> None:
    world = Happened(dict.fromkeys(range(0, 20 * 1440, 7), 1))
    book = HourBook(world.read)
    now = EPOCH + timedelta(days=20, hours=10, minutes=30)
    book.sums([now - timedelta(days=12)], now)
    first = len(world.reads)
    world.reads.clear()

    for number in range(60):
        book.sums([now + MINUTE * number - timedelta(days=12)], now + MINUTE * number)

    assert first < 10
    assert max(end - start for start, end in world.reads) == 2 * HOUR - MINUTE
    assert sum(end - start == HOUR for start, end in world.reads) <= 3  # closed, and made of parts


def test_few_readings_at_a_time_leave_the_oldest_for_later() -> None:
    world = Happened(dict.fromkeys(range(20 * 1440), 1))
    book = HourBook(world.read)
    now = EPOCH + timedelta(days=20)
    starts = [now - timedelta(hours=6), now - timedelta(days=19)]

    first = book.sums(starts, now, most_reads=2)
    for _ in range(10):
        last = book.sums(starts, now, most_reads=2)

    assert spent(first.cells[starts[0]]) == 360
    assert first.cells[starts[1]] is None
    assert starts[1] < first.since < now
    assert (spent(last.cells[starts[1]]), last.since) == (19 * 1440, starts[1])


def test_what_changes_while_it_is_read_is_not_kept() -> None:
    world = Happened({60: 1})
    now = EPOCH + timedelta(hours=20)

    def read(start: datetime, end: datetime, at: datetime) -> Mapping[Hour, Cell]:
        found = world.read(start, end, at)
        if start <= EPOCH + HOUR < end:
            world.amounts[61] = 5
            book.forget((1, 2))
        return found

    book = HourBook(read)

    assert spent(book.sums([EPOCH], now).cells[EPOCH]) == 1
    assert spent(book.sums([EPOCH], now).cells[EPOCH]) == 6
