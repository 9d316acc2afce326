"""Fields of a document: typed reading, and problems gathered with file, line and cure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from base.durations import parse_duration
from base.errors import BadInput
from slo.located import Located


class Report:
    """What was found wrong (problems) or doubtful (warnings) while reading documents."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def problem(self, what: str, at: Located, message: str, *, line: int | None = None) -> None:
        self.problems.append(_say(what, at, message, line))

    def warn(self, what: str, at: Located, message: str, *, line: int | None = None) -> None:
        self.warnings.append(_say(what, at, message, line))


def _say(what: str, at: Located, message: str, line: int | None) -> str:
    return f"{Path(at.file).name}: {what} line {line or at.line}: {message}"


class Fields:
    """The fields of one mapping, read once each; what is left over is unknown."""

    def __init__(self, at: Located, what: str, report: Report) -> None:
        self.at = at
        self.what = what
        self.report = report
        self._seen: set[str] = set()

    def take(self, key: str) -> Located | None:
        self._seen.add(key)
        return self.at.get(key)

    def text(self, key: str, *, required: bool = False) -> str | None:
        found = self._required(key) if required else self.take(key)
        if found is None:
            return None
        if isinstance(found.data, str):
            return found.data
        self.bad(found, f"{key} is not text: put it in quotes")
        return None

    def number(self, key: str) -> float | None:
        found = self.take(key)
        if found is None:
            return None
        if isinstance(found.data, (int, float)) and not isinstance(found.data, bool):
            return float(found.data)
        self.bad(found, f"{key} {found.plain()!r} is not a number")
        return None

    def flag(self, key: str) -> bool | None:
        found = self.take(key)
        if found is None:
            return None
        if isinstance(found.data, bool):
            return found.data
        self.bad(found, f"{key} {found.plain()!r} is not true or false")
        return None

    def duration(self, key: str, *, required: bool = False) -> timedelta | None:
        found = self._required(key) if required else self.take(key)
        if found is None:
            return None
        try:
            span = parse_duration(str(found.data))
        except BadInput as error:
            self.bad(found, f"{key}: {error}")
            return None
        if span <= timedelta(0):
            self.bad(found, f"{key} must be longer than nothing")
            return None
        return span

    def mapping(self, key: str, *, required: bool = False) -> Located | None:
        found = self._required(key) if required else self.take(key)
        if found is None or isinstance(found.data, dict):
            return found
        self.bad(found, f"{key} is not a mapping of fields")
        return None

    def items(self, key: str) -> list[Located]:
        found = self.take(key)
        if found is None:
            return []
        if isinstance(found.data, list):
            return found.data
        self.bad(found, f"{key} is not a list")
        return []

    def texts(self, key: str) -> dict[str, str]:
        """Read a mapping of texts; OpenSLO's lists of labels are joined by commas."""
        found = self.mapping(key)
        if found is None:
            return {}
        return {name: _joined(value.plain()) for name, value in found.data.items()}

    def refuse_unknown(self, known: Iterable[str] = ()) -> None:
        """Report each field that nobody took."""
        if not isinstance(self.at.data, dict):
            return
        for key in self.at.data:
            if key not in self._seen and key not in known:
                fields = ", ".join(sorted(self._seen))
                self.report.problem(
                    self.what, self.at, f"unknown field {key!r}: the fields here are {fields}",
                    line=self.at.keys.get(key),
                )  # fmt: skip

    def bad(self, at: Located, message: str) -> None:
        self.report.problem(self.what, at, message)

    def _required(self, key: str) -> Located | None:
        found = self.take(key)
        if found is None:
            self.bad(self.at, f"{key} is missing")
        return found


def _joined(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value)
