from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from base.clock import ManualClock, SystemClock
from base.ids import new_id
from base.labels import fingerprint

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_a_manual_clock_moves_only_when_it_is_told() -> None:
    clock = ManualClock(NOON)

    clock.advance(timedelta(minutes=5))

    assert clock.now() == NOON + timedelta(minutes=5)
    assert clock.monotonic() == 300


def test_a_jump_of_the_wall_clock_does_not_move_the_monotonic_one() -> None:
    clock = ManualClock(NOON)

    clock.jump(NOON - timedelta(hours=1))

    assert clock.now() == NOON - timedelta(hours=1)
    assert clock.monotonic() == 0


def test_a_naive_start_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2026, 11, 30))  # noqa: DTZ001


def test_the_system_clock_is_in_utc() -> None:
    assert SystemClock().now().tzinfo is UTC


def test_ids_sort_by_the_time_they_were_made() -> None:
    clock = ManualClock(NOON)
    ids = []
    for _ in range(50):
        ids.append(new_id(clock))
        clock.advance(timedelta(milliseconds=1))

    assert ids == sorted(ids)
    assert len({*ids}) == 50
    assert {len(one) for one in ids} == {26}


def test_a_fingerprint_does_not_depend_on_the_order_of_labels() -> None:
    assert fingerprint({"a": "1", "b": "2"}) == fingerprint({"b": "2", "a": "1"})
    assert fingerprint({"a": "1", "b": "2"}) != fingerprint({"a": "12", "b": ""})
