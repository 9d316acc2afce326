"""Answers kept for a few seconds, so that many viewers cost as much as one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from datetime import timedelta
from typing import Generic, TypeVar

from base.clock import Clock

_Answer = TypeVar("_Answer")


class Memo(Generic[_Answer]):
    """Remembers a bounded number of answers; who asks for one in the making waits for it."""

    def __init__(self, clock: Clock, size: int = 64) -> None:
        self._clock = clock
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, _Answer]] = OrderedDict()
        self._making: dict[Hashable, Future[_Answer]] = {}

    def get(self, key: Hashable, keep: timedelta, make: Callable[[], _Answer]) -> _Answer:
        """Answer from memory while it is younger than `keep`, else make it anew."""
        now = self._clock.monotonic()
        with self._lock:
            found = self._kept.get(key)
            if found is not None and now - found[0] < keep.total_seconds():
                return found[1]
            making = self._making.get(key)
            if making is None:
                mine: Future[_Answer] = Future()
                self._making[key] = mine
        if making is not None:
            return making.result()
        return self._make(key, now, make, mine)

    def _make(
        self, key: Hashable, now: float, make: Callable[[], _Answer], mine: Future[_Answer]
    ) -> _Answer:
        try:
            answer = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            self._kept[key] = (now, answer)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        mine.set_result(answer)
        return answer
