"""A native document in the making: what every importer fills, with an account of each change."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from base.durations import format_duration, parse_duration
from base.errors import BadInput
from slo.checks import DEFAULT_WINDOW, LONGEST_WINDOW, SHORTEST_WINDOW, SMALLEST_SHARE
from slo.imports.outcome import Imported, Note, NoteKind, Refusal
from slo.imports.sli import Sli
from slo.imports.tiers import StatedTier, fit_tiers
from slo.located import Located
from slo.slices import whole_slices
from slo.tiers import derive
from slo.verdict import Severity

_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_MONTHLIKE = {"M": 30, "Q": 91, "Y": 365, "y": 365}
LONGEST_NAME = 64
BEYOND = "tokenweir/beyond"
"""The annotation in which an exported document says what its format has no word for."""


class Draft:
    """One SLO on its way; `what` names it in messages as its own format does."""

    def __init__(self, what: str, at: Located) -> None:
        self.what = what
        self.at = at
        self.objective = 0.0
        self.window = DEFAULT_WINDOW
        self._notes: list[Note] = []
        self.name = ""
        self._percent: float | int = 0
        self._calendar: dict[str, str] | None = None
        self._sli: Sli | None = None
        self._tiers: list[dict[str, Any]] | None = None
        self._texts: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.annotations: dict[str, str] = {}

    def note(self, kind: NoteKind, at: Located | None, text: str) -> None:
        self._notes.append(Note(kind, (at or self.at).line, text))

    def kept(self, text: str, at: Located | None = None) -> None:
        self.note("kept", at, text)

    def fixed(self, text: str, at: Located | None = None) -> None:
        self.note("fixed", at, text)

    def lost(self, text: str, at: Located | None = None) -> None:
        self.note("lost", at, text)

    def lose_rest(self, at: Located | None, *known: str) -> None:
        """Account for every field that nothing here stands for."""
        if at is None or not isinstance(at.data, dict):
            return
        for key in sorted(at.data.keys() - set(known)):
            if at.get(key) is not None:
                self.lost(f"the field {key!r} has no counterpart here", at.data[key])

    def set_name(self, name: str, at: Located | None = None) -> None:
        self.name = name_of(name)
        if not self.name:
            raise Refusal(at or self.at, f"name {name!r} holds no letter or digit")
        if self.name != name:
            self.fixed(f"the name {name!r} is written {self.name!r}", at)

    def set_objective(self, percent: float, at: Located) -> None:
        if percent == 100:
            raise Refusal(at, "objective 100 leaves no budget: a budget of zero cannot be kept")
        if not 0 < percent < 100:
            raise Refusal(at, f"objective {percent:g} is outside (0, 100)")
        self.objective = round(percent / 100, 12)
        if not SMALLEST_SHARE <= self.objective <= 1 - SMALLEST_SHARE:
            raise Refusal(at, f"objective {percent!r} is too near to 0 or 100 to be counted")
        tidy = round(percent, 10)
        self._percent = int(tidy) if tidy == int(tidy) else tidy

    def set_window(self, span: timedelta, at: Located) -> None:
        if not SHORTEST_WINDOW <= span <= LONGEST_WINDOW:
            raise Refusal(
                at, f"window {format_duration(span)} is not between 1 minute and 366 days"
            )
        self.window = span

    def set_window_text(self, text: str, at: Located) -> None:
        """Read `30d`, and `1M`, `1Q`, `1Y`, which have no fixed length in a rolling window."""
        span, doubt = read_window(text, at)
        self.set_window(span, at)
        if doubt:
            self.fixed(doubt, at)

    def set_calendar(self, period: str, zone: str) -> None:
        self._calendar = {"period": period, "zone": zone}

    def set_sli(self, sli: Sli, at: Located) -> None:
        self._sli = sli
        for kind, text in sli.notes:
            self.note(kind, at, text)

    def set_text(self, key: str, text: str) -> None:
        if text.strip():
            self._texts[key] = text.strip()

    def set_tiers(self, stated: Sequence[StatedTier]) -> None:
        """Take stated tiers over, each made to fire at this objective."""
        fitted, notes = fit_tiers(stated, self.objective, self.window)
        for at, kind, text in notes:
            self.note(kind, at, text)
        if stated and not fitted:
            self.fixed("no stated alert fits: the tiers are derived from objective and window")
            return
        self._tiers = [tier_document(tier) for tier in fitted]

    def no_alerts(self, at: Located | None = None) -> None:
        self._tiers = []
        self.kept("no alerts, as it was", at)

    def only_alerts(self, severity: Severity, at: Located | None = None) -> None:
        """Keep the derived tiers of one severity, the other being switched off."""
        tiers = [each for each in derive(self.objective, self.window) if each.severity == severity]
        self._tiers = [tier_document(tier) for tier in tiers]
        self.kept(f"only alerts of severity {severity}, as the others were switched off", at)

    def finish(self) -> Imported:
        sli = self._sli
        if sli is None:
            raise Refusal(self.at, "no indicator")
        document: dict[str, Any] = {"kind": "slo", "name": self.name, **self._texts}
        document["objective"] = self._percent
        document["window"] = format_duration(self.window)
        if self._calendar is not None:
            document["calendar"] = self._calendar
        if sli.group_by:
            document["group_by"] = list(sli.group_by)
        document |= sli.document()
        if sli.sliced is not None:
            self._fit_slices(parse_duration(sli.sliced["length"]))
        if self._tiers is not None:
            document["tiers"] = self._tiers
        for key, texts in (("labels", self.labels), ("annotations", self.annotations)):
            if texts:
                document[key] = dict(texts)
        if BEYOND in self.annotations:
            document = _with_beyond(document, self.at)
            self._notes = [Note("kept", self.at.line, f"as exported, with its {BEYOND}")]
        return Imported(
            name=str(document["name"]),
            what=self.what,
            file=self.at.file,
            line=self.at.line,
            document=document,
            notes=tuple(self._notes),
            draft=sli.draft,
            slices=sli.slices,
        )

    def _fit_slices(self, length: timedelta) -> None:
        """Make windows of whole slices."""
        if self.window % length:
            raise Refusal(
                self.at,
                f"the window {format_duration(self.window)} is not whole slices of "
                f"{format_duration(length)}",
            )
        for tier in self._tiers or ():
            for key in ("short", "long"):
                stated = parse_duration(tier[key])
                whole = whole_slices(stated, length)
                if key == "long" and whole <= parse_duration(tier["short"]):
                    whole = parse_duration(tier["short"]) + length
                if whole != stated:
                    tier[key] = format_duration(whole)
                    self.fixed(
                        f"alert {tier['name']!r}: its {key} window {format_duration(stated)} is "
                        f"{tier[key]}, whole slices"
                    )


def _with_beyond(document: dict[str, Any], at: Located) -> dict[str, Any]:
    """Put back what `tokenweir slo export` noted beside a format that has no word for it."""
    annotations = dict(document.get("annotations", {}))
    try:
        beyond = json.loads(annotations.pop(BEYOND))
    except ValueError as error:
        raise Refusal(at, f"the annotation {BEYOND} is not JSON: {error}") from error
    if not isinstance(beyond, dict):
        raise Refusal(at, f"the annotation {BEYOND} is not a mapping of fields")
    rest = {key: value for key, value in document.items() if key != "annotations"}
    whole = rest | ({"annotations": annotations} if annotations else {}) | beyond
    return {key: value for key, value in whole.items() if value is not None}


def name_of(*parts: str) -> str:
    """Join parts to a native name; a long one ends in a digest, so that two stay apart."""
    whole = "-".join(_NOT_IN_A_NAME.sub("-", part.lower()).strip("-") for part in parts if part)
    whole = whole.strip("-")
    if len(whole) <= LONGEST_NAME:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{whole[: LONGEST_NAME - 9].rstrip('-')}-{digest}"


def read_window(text: str, at: Located) -> tuple[timedelta, str]:
    """Read a window, and say what was doubtful about it."""
    count, unit = text[:-1], text[-1:]
    if unit in _MONTHLIKE and count.isdigit():
        days = int(count[:4]) * _MONTHLIKE[unit]
        return timedelta(days=days), f"{text} has no fixed length in a rolling window: {days}d"
    if unit == "m" and count.isdigit() and int(count[:4]) <= 12:
        days = int(count) * 30
        return timedelta(days=days), (
            f"{text} is {count} minutes, which is no budget window: {days}d is taken as meant"
        )
    try:
        return parse_duration(text), ""
    except BadInput as error:
        raise Refusal(at, str(error)) from error


def tier_document(tier: Any) -> dict[str, Any]:
    factor = int(tier.factor) if tier.factor == int(tier.factor) else tier.factor
    return {
        "name": tier.name,
        "severity": tier.severity,
        "factor": factor,
        "long": format_duration(tier.long),
        "short": format_duration(tier.short),
    }


def texts_of(at: Located | None) -> dict[str, str]:
    """Read labels or annotations; a list of values is joined by commas."""
    if at is None or not isinstance(at.data, dict):
        return {}
    return {key: text_of(value.plain()) for key, value in at.data.items()}


def text_of(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(text_of(item) for item in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def number_of(at: Located | None) -> float | None:
    """Read a number, also one that was put in quotes."""
    if at is None or isinstance(at.data, bool):
        return None
    try:
        return float(at.data) if isinstance(at.data, (int, float, str)) else None
    except ValueError:
        return None


def string_of(at: Located | None) -> str:
    return "" if at is None or isinstance(at.data, (dict, list)) else text_of(at.data)


def shared(
    page: Mapping[str, str], ticket: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Part the labels of two alerts into those that agree and those that differ."""
    both = {**ticket, **page}
    differ = {
        key: (page[key], ticket[key])
        for key in page.keys() & ticket.keys()
        if page[key] != ticket[key]
    }
    return {key: value for key, value in both.items() if key not in differ}, differ
