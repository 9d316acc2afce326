"""The pages as text: read once, asked about by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `title` names the file it would be."""

    language: str
    title: str
    text: str


class Pages:
    """The documentation of this repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = sorted([*(root / "docs").glob("*.md"), root / "README.md",
                             root / "examples" / "README.md"])  # fmt: skip

    def text(self, name: str) -> str:
        return (self.root / "docs" / name).read_text("utf-8")

    def blocks(self, title: str) -> Iterator[tuple[str, Block]]:
        """Yield the blocks of that title, each with a name for messages."""
        for path in self.files:
            for found in _BLOCK.finditer(path.read_text("utf-8")):
                block = Block(found[1], found[2] or "", found[3])
                if block.title == title:
                    line = path.read_text("utf-8")[: found.start()].count("\n") + 1
                    yield f"{path.name}:{line}", block


@pytest.fixture(scope="session")
def pages() -> Pages:
    return Pages(ROOT)
