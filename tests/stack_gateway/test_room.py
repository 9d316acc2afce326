from __future__ import annotations

import asyncio

import pytest

from stack.room import Room, RoomFull


async def hold(room: Room, until: asyncio.Event, order: list[int], number: int) -> None:
    async with room.place():
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
        async with room.place():
            pass

    done.set()
    await asyncio.gather(*tasks)


async def test_too_long_a_wait_is_refused_and_leaves_no_trace() -> None:
    room, done = Room(1, 5, 0.01), asyncio.Event()
    task = asyncio.create_task(hold(room, done, [], 0))
    await asyncio.sleep(0)

    with pytest.raises(RoomFull):
        async with room.place():
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
