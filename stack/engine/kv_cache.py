"""The paged key-value cache of one engine: blocks counted, prefixes remembered.

A block is plain (free), private to one sequence, or shared under the hash of the prefix it holds.
Shared blocks that nobody uses stay until the space is needed, least recently used first, as in
vLLM's prefix caching. Only full blocks of prompts are shared here; generated tokens are not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Holding:
    """The blocks one sequence holds: shared ones by hash, in prompt order, and private ones."""

    shared: list[int] = field(default_factory=list)
    private: int = 0

    @property
    def blocks(self) -> int:
        return len(self.shared) + self.private


class KvCache:
    """Counts blocks and finds prefixes. Every block is in exactly one of four states."""

    def __init__(self, blocks: int, block_size: int) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self._plain = blocks
        self._private = 0
        self._used: dict[int, int] = {}  # hash -> sequences that hold the block
        self._idle: OrderedDict[int, None] = OrderedDict()  # least recently used first

    @property
    def free(self) -> int:
        """Blocks that can be had now, those of idle prefixes included."""
        return self._plain + len(self._idle)

    @property
    def usage(self) -> float:
        """The share of blocks that sequences hold, 0 to 1."""
        return 1 - self.free / self.blocks

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def hits(self, hashes: Sequence[int]) -> int:
        """Count the leading blocks that are in the cache."""
        for index, block in enumerate(hashes):
            if block not in self._used and block not in self._idle:
                return index
        return len(hashes)

    def admit(self, hashes: Sequence[int], fresh: int) -> Holding | None:
        """Take cached blocks and `fresh` new ones, or nothing when there is not enough room."""
        idle_hits = sum(block in self._idle for block in hashes)
        if fresh > self.free - idle_hits:
            return None
        for block in hashes:
            self._idle.pop(block, None)
            self._used[block] = self._used.get(block, 0) + 1
        holding = Holding(list(hashes))
        self.grow(holding, fresh)
        return holding

    def grow(self, holding: Holding, fresh: int) -> bool:
        """Add `fresh` private blocks, evicting idle prefixes if need be; False leaves all as is."""
        if fresh > self.free:
            return False
        while self._plain < fresh:
            self._idle.popitem(last=False)
            self._plain += 1
        self._plain -= fresh
        self._private += fresh
        holding.private += fresh
        return True

    def share(self, holding: Holding, hashes: Sequence[int]) -> None:
        """Publish blocks just computed; one that another sequence published stays private.

        Sharing stops there, because a prefix is only useful without a hole.
        """
        for block in hashes:
            if block in self._used or block in self._idle:
                return
            self._used[block] = 1
            self._private -= 1
            holding.private -= 1
            holding.shared.append(block)

    def release(self, holding: Holding) -> None:
        """Give everything back; the end of a prefix will be evicted before its beginning."""
        for block in reversed(holding.shared):
            left = self._used[block] - 1
            if left:
                self._used[block] = left
            else:
                del self._used[block]
                self._idle[block] = None
        self._plain += holding.private
        self._private -= holding.private
        holding.shared = []
        holding.private = 0

    def accounted(self) -> int:
        """Sum the blocks of all states: always `blocks`, or one has leaked."""
        return self._plain + self._private + len(self._used) + len(self._idle)
