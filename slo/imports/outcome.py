"""What an import says about each document: taken over, refused, or not an SLO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from base.errors import BadInput
from slo.located import Located

NoteKind = Literal["kept", "fixed", "lost"]


@dataclass(frozen=True, slots=True)
class Note:
    """`kept` as it was, `fixed` because it could not be meant, or `lost` and why."""

    kind: NoteKind
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Imported:
    """A native document, ready to be written.

    `draft` says that everything but the indicator was taken over: its metrics live in a system
    that only its own server can query. `slices` says what became of a budget of time slices.
    """

    name: str
    what: str
    file: str
    line: int
    document: Mapping[str, Any]
    notes: tuple[Note, ...]
    draft: bool = False
    slices: Literal["kept", "lost"] | None = None

    @property
    def is_whole(self) -> bool:
        """Say whether it judges what it judged where it comes from, as it is."""
        return not self.draft and self.slices != "lost"


@dataclass(frozen=True, slots=True)
class Refused:
    file: str
    line: int
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An object that is no SLO itself: a service, a data source, an alert policy."""

    file: str
    line: int
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Imports:
    imported: tuple[Imported, ...]
    refused: tuple[Refused, ...]
    passed_over: tuple[PassedOver, ...]


class Refusal(BadInput):
    """An SLO cannot be taken over; `at` is the value that is to blame."""

    def __init__(self, at: Located, reason: str, what: str = "") -> None:
        super().__init__(reason)
        self.at = at
        self.what = what
