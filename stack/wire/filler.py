"""Text without meaning in which four characters are one token, in both directions.

Four is the usual rule of thumb for English. It makes counting free, and an answer that becomes
part of the next prompt keeps its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

CHARS_PER_TOKEN: Final = 4
_WORDS: Final = (
    "the old dam was low and the sea ran far out but now the sky has let its "
    "wet fog lie all day and one man can see his own sun set red "
)
_CYCLE: Final = "".join(f"{word[:3]:<4}" for word in _WORDS.split())
_LONG: Final = _CYCLE * 64
_LONG_TOKENS: Final = len(_LONG) // CHARS_PER_TOKEN

Prompt = str | Sequence[int]


def filler(start: int, stop: int) -> str:
    """Return the text of tokens `start` to `stop` of an endless answer."""
    first = start % _LONG_TOKENS
    text = _LONG[first * CHARS_PER_TOKEN : (first + stop - start) * CHARS_PER_TOKEN]
    missing = (stop - start) - len(text) // CHARS_PER_TOKEN
    return text if missing <= 0 else text + filler(0, missing)


def count_tokens(prompt: Prompt) -> int:
    """Count a prompt's tokens: of a list of token ids each is one."""
    return -(-len(prompt) // CHARS_PER_TOKEN) if isinstance(prompt, str) else len(prompt)


def block_hashes(prompt: Prompt, block_size: int, salt: str = "") -> tuple[int, ...]:
    """Name the full blocks of a prompt; equal names mean an equal prefix up to there."""
    width = block_size * CHARS_PER_TOKEN if isinstance(prompt, str) else block_size
    chained = hash(salt)
    hashes = []
    for end in range(width, len(prompt) + 1, width):
        piece = prompt[end - width : end]
        chained = hash((chained, piece if isinstance(piece, str) else tuple(piece)))
        hashes.append(chained)
    return tuple(hashes)
