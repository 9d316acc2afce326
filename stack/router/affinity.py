"""Which worker has probably cached the beginning of a prompt.

A prompt's text is cut into blocks and each block is named by a hash of everything up to its end,
as vLLM names its own KV blocks. A worker's table holds the names of what it was sent lately: a
guess about its cache that costs no question.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence

BLOCK_CHARS = 256
MOST_BLOCKS = 64
REMEMBERED_BLOCKS = 20_000
"""Per worker: about 1.3 million tokens, the order of one node's KV cache."""


def prefix_blocks(model: str, pieces: Iterable[str]) -> tuple[bytes, ...]:
    """Name the leading whole blocks of a prompt; a prompt shorter than one block has none."""
    text = model + "\0"
    limit = BLOCK_CHARS * MOST_BLOCKS
    for piece in pieces:
        text += piece[:limit] + "\0"
        if len(text) >= limit:
            break
    names: list[bytes] = []
    seen = b""
    for start in range(0, min(len(text), limit) - BLOCK_CHARS + 1, BLOCK_CHARS):
        block = text[start : start + BLOCK_CHARS].encode("utf-8", "surrogatepass")
        seen = hashlib.blake2b(seen + block, digest_size=8).digest()
        names.append(seen)
    return tuple(names)


class PrefixTable:
    """The blocks one worker was sent, the oldest forgotten first."""

    def __init__(self, remembered: int = REMEMBERED_BLOCKS) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()
        self._remembered = remembered

    def __len__(self) -> int:
        return len(self._blocks)

    def matched(self, blocks: Sequence[bytes]) -> int:
        """Count the leading blocks this worker knows."""
        for count, block in enumerate(blocks):
            if block not in self._blocks:
                return count
        return len(blocks)

    def remember(self, blocks: Sequence[bytes]) -> None:
        for block in blocks:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._remembered:
            self._blocks.popitem(last=False)
