"""Incidents that are known to have happened, to hold pages against."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from base.durations import parse_instant
from base.errors import BadInput
from slo.columns import GROUP_COLUMNS

_COLUMNS = ("start", "end", "slo", *GROUP_COLUMNS)


@dataclass(frozen=True, slots=True)
class Incident:
    """From when to when something was broken, for which SLO and members; '' and {} mean all."""

    start: datetime
    end: datetime
    slo: str = ""
    members: Mapping[str, str] = field(default_factory=dict)

    def concerns(self, slo: str, group: Mapping[str, str]) -> bool:
        """Say whether a group's page may be about it; a group knows only what it is grouped by."""
        if self.slo and self.slo != slo:
            return False
        return all(group[name] == value for name, value in self.members.items() if name in group)


def read_incidents(path: Path) -> list[Incident]:
    """Read a CSV with `start`, `end`, and if they matter `slo` and columns of groups."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    return [_incident(path, number, row) for number, row in enumerate(rows, start=2)]


def _incident(path: Path, line: int, row: Mapping[str | None, str | None]) -> Incident:
    unknown = [name for name in row if name not in _COLUMNS]
    if unknown or not {"start", "end"} <= row.keys():
        raise BadInput(
            f"{path}: incidents have the columns start, end and, if they matter, "
            f"{', '.join(_COLUMNS[2:])}; not {unknown[0] if unknown else ', '.join(map(str, row))}"
        )
    said = {str(name): value or "" for name, value in row.items()}
    try:
        start, end = parse_instant(said["start"]), parse_instant(said["end"])
    except BadInput as error:
        raise BadInput(f"{path} line {line}: {error}") from error
    if end <= start:
        raise BadInput(f"{path} line {line}: an incident ends after it starts")
    members = {name: said[name] for name in GROUP_COLUMNS if said.get(name)}
    return Incident(start, end, said.get("slo", ""), members)
