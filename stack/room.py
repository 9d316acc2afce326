"""The gateway's door: so many requests inside, so many waiting, none for longer than a limit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RoomFull(Exception):  # noqa: N818  it is an answer, not a fault
    """No place, and either no place to wait or too long a wait."""


class Room:
    """First come, first served. Leaving while waiting, by cancellation, is fine."""

    def __init__(self, places: int, waiting: int, longest_wait_s: float) -> None:
        self._places = places
        self._most_waiting = waiting
        self._longest_wait_s = longest_wait_s
        self._queue: deque[asyncio.Future[None]] = deque()
        self.inside = 0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place for the block. Raises RoomFull."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        if self.inside < self._places and not self._queue:
            self.inside += 1
            return
        if len(self._queue) >= self._most_waiting:
            raise RoomFull(f"{self.inside} requests inside and {len(self._queue)} waiting")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout(self._longest_wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._leave()  # the place came at the moment we gave up: pass it on
            elif turn in self._queue:
                self._queue.remove(turn)
            if isinstance(error, TimeoutError):
                raise RoomFull(f"no place within {self._longest_wait_s:g} s") from None
            raise

    def _leave(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)  # the place changes hands, `inside` stays
                return
        self.inside -= 1
