"""The gateway's door: so many requests inside, so many waiting, none for longer than a limit.

Tenants take turns: whoever sends more than the others waits longer, not everybody. When the
waiting room is full the newest of the longest queue makes place for a tenant with a shorter one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RoomFull(Exception):  # noqa: N818  it is an answer, not a fault
    """No place, and either no place to wait or too long a wait."""


class Room:
    """Leaving while waiting, by cancellation, is fine."""

    def __init__(self, places: int, waiting: int, longest_wait_s: float) -> None:
        self._places = places
        self._most_waiting = waiting
        self._longest_wait_s = longest_wait_s
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.inside = 0

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def place(self, tenant: str) -> AsyncIterator[None]:
        """Hold a place for the block. Raises RoomFull."""
        await self._enter(tenant)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, tenant: str) -> None:
        if self.inside < self._places and not self._queues:
            self.inside += 1
            return
        self._make_room(tenant)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(turn)
        try:
            async with asyncio.timeout(self._longest_wait_s):
                await turn
        except TimeoutError:
            self._give_up(tenant, turn)
            raise RoomFull(f"no place within {self._longest_wait_s:g} s") from None
        except BaseException:
            self._give_up(tenant, turn)
            raise

    def _make_room(self, tenant: str) -> None:
        """Let the newcomer wait, at the cost of the longest queue if need be, or raise."""
        if self.waiting < self._most_waiting:
            return
        full = RoomFull(f"{self.inside} requests inside and {self.waiting} waiting")
        longest = max(self._queues, key=lambda t: len(self._queues[t]), default=tenant)
        own = len(self._queues.get(tenant, ()))
        if own + 1 >= len(self._queues.get(longest, ())):
            raise full
        self._queues[longest].pop().set_exception(full)

    def _give_up(self, tenant: str, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled() and turn.exception() is None:
            self._leave()  # the place came at the moment we gave up: pass it on
            return
        queue = self._queues.get(tenant)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[tenant]

    def _leave(self) -> None:
        """Hand the place to the next tenant in turn; without one it is free."""
        while self._queues:
            tenant, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[tenant] = queue  # to the end of the round
            if not turn.done():
                turn.set_result(None)  # the place changes hands, `inside` stays
                return
        self.inside -= 1
