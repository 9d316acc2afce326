"""How two versions of a document differ, word by word. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Kind = Literal["same", "gone", "new"]

_WORD = re.compile(r"\s+|[\w.]+|[^\w\s]")
_ALIKE = 0.4  # below, two texts have too little in common to be woven together


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text that both versions have, or only the old or the new one."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that changed."""

    path: str
    pieces: tuple[Piece, ...]


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """Compare two versions, each a text by path; fields in the order of the newer one."""
    paths = [*after, *(path for path in before if path not in after)]
    return [
        Difference(path, _pieces(before.get(path, ""), after.get(path, "")))
        for path in paths
        if before.get(path) != after.get(path)
    ]


def _pieces(was: str, now: str) -> tuple[Piece, ...]:
    old, new = _WORD.findall(was), _WORD.findall(now)
    compared = SequenceMatcher(None, old, new, autojunk=False)
    if compared.ratio() < _ALIKE:
        return _known(Piece("gone", was), Piece("same", " " * bool(was and now)), Piece("new", now))
    out: list[Piece] = []
    for tag, i, j, k, m in compared.get_opcodes():
        if tag == "equal":
            out.append(Piece("same", _text(old[i:j])))
        else:
            out += [Piece("gone", _text(old[i:j])), Piece("new", _text(new[k:m]))]
    return _known(*out)


def _text(words: Sequence[str]) -> str:
    return "".join(words)


def _known(*pieces: Piece) -> tuple[Piece, ...]:
    return tuple(piece for piece in pieces if piece.text)
