from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.gateway.room import Room, RoomFull


async def hold(
    room: Room, until: asyncio.Event, order: list[int], number: int, tenant: str = "a"
) -> None:
    async with room.place(tenant):
        order.append(number)
        await until.wait()


async def test_who_waits_enters_in_order() -> None:
    room, order, done = Room(1, 10, 5), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(room, done, order, n)) for n in range(4)]
    await asyncio.sleep(0)

    assert (room.inside, room.waiting, order) == (1, 3, [0])
    done.set()
    await asyncio.gather(*tasks)

    assert order == [0, 1, 2, 3]
    assert (room.inside, room.waiting) == (0, 0)


async def test_a_full_waiting_room_refuses_at_once() -> None:
    room, done = Room(1, 1, 5), asyncio.Event()
    tasks = [asyncio.create_task(hold(room, done, [], n)) for n in range(2)]
    await asyncio.sleep(0)

    with pytest.raises(RoomFull):
        async with room.place("a"):
            pass

    done.set()
    await asyncio.gather(*tasks)


async def test_too_long_a_wait_is_refused_and_leaves_no_trace() -> None:
    room, done = Room(1, 5, 0.01), asyncio.Event()
    task = asyncio.create_task(hold(room, done, [], 0))
    await asyncio.sleep(0)

    with pytest.raises(RoomFull):
        async with room.place("a"):
            pass

    assert room.waiting == 0
    done.set()
    await task
    assert room.inside == 0


async def test_a_place_given_to_one_who_just_left_goes_to_the_next() -> None:
    room, done, order = Room(1, 5, 5), asyncio.Event(), list[int]()
    first = asyncio.create_task(hold(room, done, order, 0))
    await asyncio.sleep(0)
    leaver = asyncio.create_task(hold(room, done, order, 1))
    last = asyncio.create_task(hold(room, done, order, 2))
    await asyncio.sleep(0)

    done.set()
    await first
    leaver.cancel()  # its turn has come in this very step of the loop
    await asyncio.gather(leaver, last, return_exceptions=True)

    assert 2 in order
    assert (room.inside, room.waiting) == (0, 0)


async def test_tenants_take_turns() -> None:
    room, order, done = Room(1, 10, 5), list[int](), asyncio.Event()
    visitors = ["first", *["flood"] * 4, "quiet-5", "quiet-6"]
    tasks = [
        asyncio.create_task(hold(room, done, order, number, tenant))
        for number, tenant in enumerate(visitors)
    ]
    await asyncio.sleep(0)

    done.set()
    await asyncio.gather(*tasks)

    assert order == [0, 1, 5, 6, 2, 3, 4]


async def test_a_full_room_makes_place_for_a_tenant_with_a_shorter_queue() -> None:
    room, order, done = Room(1, 3, 5), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(room, done, order, n, "flood")) for n in range(4)]
    await asyncio.sleep(0)

    quiet = asyncio.create_task(hold(room, done, order, 9, "quiet"))
    await asyncio.sleep(0)
    done.set()
    ends = await asyncio.gather(*tasks, quiet, return_exceptions=True)

    assert [type(end) for end in ends] == [type(None)] * 3 + [RoomFull, type(None)]
    assert order == [0, 1, 9, 2]
    assert (room.inside, room.waiting) == (0, 0)


@given(
    st.integers(1, 4),
    st.integers(0, 6),
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["stay", "cancel"])), max_size=25),
)
def test_whatever_happens_the_room_is_empty_in_the_end(
    places: int, waiting: int, visitors: list[tuple[str, str]]
) -> None:
    async def play() -> tuple[int, int, int]:
        room, done, most = Room(places, waiting, 5), asyncio.Event(), 0
        tasks = []
        for tenant, what in visitors:
            task = asyncio.create_task(hold(room, done, [], 0, tenant))
            tasks.append(task)
            await asyncio.sleep(0)
            most = max(most, room.inside)
            if what == "cancel":
                task.cancel()
        done.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return room.inside, room.waiting, most

    inside, left, most = asyncio.run(play())

    assert (inside, left) == (0, 0)
    assert most <= places
