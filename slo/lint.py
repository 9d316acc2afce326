"""What is wrong or doubtful in SLO documents, each with its place and its cure.

Here is what the documents alone show; `slo.lint_data` holds them against requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import combinations
from pathlib import Path

from base.durations import format_duration
from base.errors import ConfigError
from slo.budget import allowance
from slo.documents import Loaded
from slo.located import Located, read_documents
from slo.model import Slo
from slo.satisfiable import can_hold
from slo.schema import TABLES
from slo.spending.model import CostSlo

RESOLUTION = min(TABLES)
"""What the finest counts resolve: shorter windows are counted from requests, one by one."""

_PROBLEM = re.compile(
    r"(?P<file>.+?): (?P<what>.+?) line (?P<line>\d+): (?P<message>.+)", re.DOTALL
)
_PLACED = re.compile(r"(?P<file>.+?)(?: line (?P<line>\d+))?: (?P<message>.+)", re.DOTALL)
_NAMED = re.compile(r"slo '([^']+)'")
_PLACE = "\0"  # no name begins so


class Level(StrEnum):
    """An error makes a document useless, a warning asks to be looked at, the rest is news."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at. `cure` says what to do about it, '' where the message does."""

    code: str
    level: Level
    file: str
    line: int
    slo: str
    message: str
    cure: str = ""


# What reading says, told apart by its words: code, level, and the cure where it is not said.
_READ = (
    (
        re.compile(r"can never fire"),
        "tier-unfireable",
        Level.ERROR,
        "lower the factor, or leave tiers out to have them derived",
    ),
    (
        re.compile(r"factor below 1"), "tier-factor-below-one", Level.WARNING,
        "raise the factor to 1 or more",
    ),
    (re.compile(r"failed request that meets good"), "failures-pass", Level.WARNING,
     "add outcome = 'good' to good"),
)  # fmt: skip


def read_findings(loaded: Loaded, files: Iterable[Path]) -> list[Finding]:
    """Turn what reading documents said into findings."""
    paths: dict[str, str] = {}
    for file in files:
        paths[file.name] = str(file)
    return [
        *(_said(text, Level.ERROR, "document-invalid", paths) for text in loaded.problems),
        *(_said(text, Level.WARNING, "document-doubtful", paths) for text in loaded.warnings),
    ]


def check_documents(slos: Sequence[Slo | CostSlo]) -> list[Finding]:
    """Find what the documents themselves show to be wrong."""
    places = Places(slos)
    found: list[Finding] = []
    for slo in slos:
        found += _contradictions(slo, places)
        if isinstance(slo, CostSlo):
            found += _tiers(slo, places, ())
            continue
        for own, path in variants_of(slo):
            found += _tiers(own, places, path)
            found += _slices(own, places, path)
        found += _idle_overrides(slo, places)
    found += _twins([slo for slo in slos if isinstance(slo, Slo)], places)
    return found


class Places:
    """Where in its document a part of an SLO is written; the whole document where it is not."""

    def __init__(self, slos: Sequence[Slo | CostSlo]) -> None:
        files = {_source(slo)[0] for slo in slos if slo.source}
        self._documents: dict[str, list[Located]] = {}
        for file in files:
            try:
                self._documents[file] = read_documents(Path(file))
            except ConfigError:
                self._documents[file] = []

    def of(self, slo: Slo | CostSlo, *path: str) -> tuple[str, int]:
        """Find file and line of a field, such as `good`, `first token`."""
        file, line = _source(slo)
        for document in self._documents.get(file, ()):
            named = document.get("name")
            if named is None or named.data != slo.name:
                continue
            at: Located | None = document
            for key in path:
                at = _step(at, key) if at is not None else None
            return file, at.line if at is not None else line
        return file, line

    def is_native(self, slo: Slo | CostSlo) -> bool:
        documents = self._documents.get(_source(slo)[0], ())
        names = (document.get("name") for document in documents)
        return any(name is not None and name.data == slo.name for name in names)

    def finding(
        self,
        slo: Slo | CostSlo,
        code: str,
        level: Level,
        message: str,
        cure: str,
        *path: str,
    ) -> Finding:
        file, line = self.of(slo, *path)
        return Finding(code, level, file, line, slo.name, message, cure)


def _step(at: Located, key: str) -> Located | None:
    if isinstance(at.data, list) and key.startswith(_PLACE):
        number = int(key.removeprefix(_PLACE))
        return at.data[number] if number < len(at.data) else None
    if isinstance(at.data, list):
        named = (each for each in at.data if (n := each.get("name")) is not None and n.data == key)
        return next(named, None)
    return at.get(key)


def _contradictions(slo: Slo | CostSlo, places: Places) -> Iterator[Finding]:
    eligible = [] if slo.eligible is None else [slo.eligible]
    if not can_hold(eligible):
        yield places.finding(
            slo, "filter-contradiction", Level.ERROR,
            "no request can ever meet eligible: it asks for what excludes itself",
            "write or where one of the two is enough, or mend the limits", "eligible",
        )  # fmt: skip
        return
    for clause in slo.good:
        if not can_hold([clause.expression]):
            yield places.finding(
                slo, "filter-contradiction", Level.ERROR,
                f"no request can ever meet {clause.name!r}: it asks for what excludes itself",
                "mend its limits", "good", clause.name,
            )  # fmt: skip
            return
    if slo.good and not can_hold([*eligible, *(clause.expression for clause in slo.good)]):
        yield places.finding(
            slo, "filter-contradiction", Level.ERROR,
            "no eligible request can ever be good: good asks for what eligible or another clause "
            "excludes",
            "mend what the two ask for", "good",
        )  # fmt: skip


def variants_of(slo: Slo) -> Iterator[tuple[Slo, tuple[str, ...]]]:
    """List an SLO as it is for its groups, with the path to where that is written."""
    for number, own in enumerate(slo.variants):
        yield own, ("overrides", place(number - 1)) if number else ()


def place(number: int) -> str:
    """Name an entry of a list that has no name, counted from 0, in a path of `Places`."""
    return f"{_PLACE}{number}"


def _tiers(slo: Slo | CostSlo, places: Places, path: tuple[str, ...]) -> Iterator[Finding]:
    if not slo.tiers:
        yield places.finding(
            slo, "no-tiers", Level.WARNING,
            "it has no tiers, so it never alerts" if not path else
            "with this override it has no tiers, so it never alerts for these groups",
            "leave tiers out to have them derived", *path, "tiers",
        )  # fmt: skip
    for tier in slo.tiers:
        if tier.short < RESOLUTION:
            yield places.finding(
                slo, "short-window-below-resolution", Level.WARNING,
                f"tier {tier.name!r} looks at {format_duration(tier.short)}, less than the "
                f"{format_duration(RESOLUTION)} that counts resolve: each verdict reads requests",
                f"make short {format_duration(RESOLUTION)} or more", *path, "tiers", tier.name,
            )  # fmt: skip


def _idle_overrides(slo: Slo, places: Places) -> Iterator[Finding]:
    alone, *others = slo.variants
    for number, (override, own) in enumerate(zip(slo.overrides, others, strict=True)):
        if own == alone:
            yield places.finding(
                slo, "override-idle", Level.INFO,
                f"the override for {override} says what the SLO says anyway",
                "remove it, or keep it if it shields these groups from a later override",
                "overrides", place(number),
            )  # fmt: skip


def _slices(slo: Slo, places: Places, path: tuple[str, ...]) -> Iterator[Finding]:
    if slo.slices is None:
        return
    length = format_duration(slo.slices.length)
    allowed = allowance(slo.objective) * (slo.window / slo.slices.length)
    if allowed < 1:
        yield places.finding(
            slo, "slice-exceeds-budget", Level.WARNING,
            f"the budget is {allowed:.2g} slices of {length}: one bad slice spends it",
            "take shorter slices, a longer window or a lower objective", *(path or ("slices",)),
        )  # fmt: skip
    for tier in slo.tiers:
        held = tier.long // slo.slices.length
        if held < tier.min_bad:
            yield places.finding(
                slo, "tier-few-slices", Level.WARNING,
                f"the long window of tier {tier.name!r} is {held} slices of {length} and min_bad "
                f"{tier.min_bad}: only a run of bad slices fires it",
                f"make long {format_duration(tier.min_bad * slo.slices.length)} or more, or lower "
                "min_bad", *path, "tiers", tier.name,
            )  # fmt: skip


def _twins(slos: Sequence[Slo], places: Places) -> Iterator[Finding]:
    for first, second in combinations(slos, 2):
        if first.definition != second.definition:
            continue
        same = first.window == second.window and (
            [own.objective for own in first.variants] == [own.objective for own in second.variants]
        )
        other = Path(places.of(first)[0]).name
        what = (
            "and has the same objective and window: each incident pages twice"
            if same
            else "with another objective or window: an incident may page for both"
        )
        yield places.finding(
            second, "twin", Level.WARNING if same else Level.INFO,
            f"it counts exactly what {first.name!r} ({other}) counts, {what}",
            "remove one, or let only one have tiers that page",
        )  # fmt: skip


def _said(text: str, level: Level, code: str, paths: dict[str, str]) -> Finding:
    found = _PROBLEM.fullmatch(text)
    parts = found or _PLACED.fullmatch(text)
    if parts is None:
        return Finding(code, level, "", 0, "", text)
    what = parts["what"] if found else ""
    named = _NAMED.search(what)
    message = parts["message"]
    kind = next(
        ((c, at, cure) for words, c, at, cure in _READ if words.search(message)),
        (code, level, ""),
    )
    file = paths.get(Path(parts["file"]).name, parts["file"])
    line = int(parts["line"] or 0)
    return Finding(kind[0], kind[1], file, line, named[1] if named else "", message, kind[2])


def _source(slo: Slo | CostSlo) -> tuple[str, int]:
    file, _, line = slo.source.rpartition(":")
    return file, int(line) if line.isdigit() else 0


def exit_status(findings: Sequence[Finding], *, strict: bool) -> int:
    """2 with errors, 1 with warnings where those count, else 0."""
    levels = {finding.level for finding in findings}
    if Level.ERROR in levels:
        return 2
    return 1 if strict and Level.WARNING in levels else 0


def minutes(span: timedelta | None) -> str:
    return (
        "never" if span is None else format_duration(timedelta(seconds=round(span.total_seconds())))
    )
