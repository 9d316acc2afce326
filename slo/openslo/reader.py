"""OpenSLO v1 files -> SLOs.

What cannot be read exactly is refused by name: other API versions, calendar windows, averages of
ratios, composites, metric sources of other systems. What is read with a doubt is a warning.
"""

from __future__ import annotations

import re
from datetime import timedelta

from base.durations import parse_duration
from base.errors import BadInput
from slo.checks import (
    DEFAULT_WINDOW,
    check_objective,
    check_whole_slices,
    check_window,
    warn_of_failures_that_pass,
)
from slo.fields import Fields, Report
from slo.imports.draft import BEYOND
from slo.imports.openslo import import_plain
from slo.located import Located, locate
from slo.model import Slo
from slo.native import read_native
from slo.openslo.alerts import read_condition, read_policies, read_policy
from slo.openslo.indicator import Indicator, read_indicator, threshold_clause
from slo.openslo.objects import Objects, OpenSloObject, read_object
from slo.slices import MIN_BAD, Slices, make_slices, unread_method
from slo.tiers import derive

VERSION = "openslo/v1"

_OCCURRENCES, _TIMESLICES = "Occurrences", "Timeslices"
_CALENDAR_UNITS = {"M": 30, "Q": 91, "Y": 365}
_NOT_A_SLUG = re.compile(r"[^a-z0-9]+")


class OpenSloReader:
    """Gathers objects from any number of files, then resolves references and makes SLOs."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._objects = Objects(report)

    @staticmethod
    def takes(document: Located) -> bool:
        version = document.get("apiVersion")
        return version is not None and str(version.data).startswith("openslo")

    def add(self, document: Located) -> None:
        version = document.get("apiVersion")
        if version is not None and version.data != VERSION:
            self._report.problem(
                "OpenSLO document", version,
                f"apiVersion {version.data!r} is not read yet: convert it to {VERSION}, or to "
                "native documents by `tokenweir slo import`",
            )  # fmt: skip
            return
        found = read_object(document, self._report)
        if found is not None:
            self._objects.add(found)

    def finish(self) -> list[tuple[Slo, Located]]:
        """Make the SLOs; also check policies and conditions that no SLO uses."""
        made = [
            (slo, found.at) for found in self._objects.of_kind("SLO") for slo in self._slos(found)
        ]
        checked = len(self._report.problems)
        for policy in self._objects.of_kind("AlertPolicy"):
            read_policy(policy, self._objects)
        for condition in self._objects.of_kind("AlertCondition"):
            read_condition(condition, self._objects)
        self._report.problems[checked:] = [
            line
            for line in self._report.problems[checked:]
            if line not in self._report.problems[:checked]
        ]
        self._report.warnings[:] = list(dict.fromkeys(self._report.warnings))
        return made

    def _exported(self, found: OpenSloObject) -> list[Slo]:
        """Read what `tokenweir slo export` wrote, with what OpenSLO has no word for."""
        try:
            native = import_plain(found.at.plain())
        except BadInput as error:
            self._report.problem(found.what, found.at, str(error))
            return []
        slo = read_native(locate(dict(native), found.at.file, found.at.line), self._report)
        return [slo] if slo else []

    def _slos(self, found: OpenSloObject) -> list[Slo]:
        if BEYOND in found.annotations:
            return self._exported(found)
        fields = Fields(found.spec, found.what, self._report)
        before = len(self._report.problems)
        fields.text("service", required=True)
        indicator = self._indicator(found, fields)
        window = self._window(fields)
        method = fields.text("budgetingMethod") or _OCCURRENCES
        if method not in {_OCCURRENCES, _TIMESLICES}:
            fields.bad(found.spec.get("budgetingMethod") or found.spec, unread_method(method))
        objectives = fields.items("objectives")
        if not objectives:
            fields.bad(found.spec, "objectives is missing: at least one target is needed")
        made = [
            slo
            for number, item in enumerate(objectives)
            if (slo := self._one(found, indicator, window, method, item, number, len(objectives)))
        ]
        return made if len(self._report.problems) == before else []

    def _one(
        self, found: OpenSloObject, indicator: Indicator | None, window: timedelta, method: str,
        at: Located, number: int, of: int,
    ) -> Slo | None:  # fmt: skip
        fields = Fields(at, found.what, self._report)
        objective = self._target(fields)
        display = fields.text("displayName") or ""
        if fields.take("compositeWeight") or fields.take("indicator") or at.get("indicatorRef"):
            fields.take("indicatorRef")
            fields.bad(
                at,
                "composite objectives are not read, as OpenSLO does not say how components add "
                "up: write one SLO for each, and a native composite over them",
            )
            return None
        clause = None
        if indicator is not None and indicator.threshold is not None:
            clause = threshold_clause(indicator, fields)
        elif indicator is not None and fields.take("op") is not None:
            self._report.warn(
                found.what, at, "op means nothing on a ratio objective and is ignored: remove it"
            )
        slices = self._slices(fields) if method == _TIMESLICES else None
        check_whole_slices(window, slices, "the time window", at, fields)
        for key in ("op", "value", "timeSliceTarget", "timeSliceWindow"):
            fields.take(key)
        fields.refuse_unknown()
        if objective is None or indicator is None or (method == _TIMESLICES and slices is None):
            return None
        good = (*indicator.good, clause) if clause else indicator.good
        warn_of_failures_that_pass(good, indicator.eligible, Fields(at, found.what, self._report))
        tiers = read_policies(found, objective, window, self._objects, slices)
        if not tiers and slices is None:
            tiers = derive(objective, window)
        elif not tiers and slices is not None:
            tiers = derive(objective, window, MIN_BAD, slices.length)
        service = found.spec.get("service")
        description = found.spec.get("description")
        return Slo(
            name=found.name if of == 1 else f"{found.name}-{_slug(display) or number + 1}",
            objective=objective,
            window=window,
            good=good,
            tiers=tiers,
            eligible=indicator.eligible,
            group_by=indicator.group_by,
            description=str(description.data) if description else found.display_name,
            labels=found.labels | ({"service": str(service.data)} if service else {}),
            annotations=found.annotations,
            source=f"{at.file}:{at.line}",
            slices=slices,
        )

    def _slices(self, fields: Fields) -> Slices | None:
        """Read what a slice is; a length without a unit is minutes."""
        share = fields.number("timeSliceTarget")
        length_at = fields.take("timeSliceWindow")
        if fields.at.get("timeSliceTarget") is None:
            fields.bad(fields.at, "timeSliceTarget is missing: budgetingMethod Timeslices needs it")
        if length_at is None:
            self._report.warn(
                fields.what, fields.at, "timeSliceWindow is missing: slices of 1m are taken"
            )
        if share is None:
            return None
        try:
            return make_slices(slice_length(length_at), round(share * 100, 10))
        except BadInput as error:
            fields.bad(length_at or fields.at, str(error))
            return None

    def _indicator(self, found: OpenSloObject, fields: Fields) -> Indicator | None:
        inline, reference = fields.mapping("indicator"), fields.take("indicatorRef")
        if (inline is None) == (reference is None):
            fields.bad(found.spec, "an SLO has either indicator or indicatorRef")
            return None
        if inline is not None:
            sli = read_object(inline, self._report, "SLI")
        else:
            assert reference is not None  # noqa: S101  one of the two is there
            sli = self._objects.refer("SLI", reference, found.what)
        return read_indicator(sli.spec, found.what, self._objects) if sli else None

    def _target(self, fields: Fields) -> float | None:
        share, percent = fields.number("target"), fields.number("targetPercent")
        if (share is None) == (percent is None):
            fields.bad(fields.at, "an objective has either target (0.99) or targetPercent (99)")
            return None
        at = fields.at.get("target") or fields.at.get("targetPercent") or fields.at
        if share is not None and not 0 < share < 1:
            hint = f": did you mean targetPercent: {share:g}?" if share >= 1 else ""
            fields.bad(at, f"target {share:g} is outside (0, 1){hint}")
            return None
        return check_objective(share * 100 if share is not None else percent or 0.0, at, fields)

    def _window(self, fields: Fields) -> timedelta:
        windows = fields.items("timeWindow")
        if not windows:
            self._report.warn(
                fields.what, fields.at, "timeWindow is missing: a rolling 30d is taken"
            )
            return DEFAULT_WINDOW
        if len(windows) > 1:
            fields.bad(windows[1], "only one timeWindow is read: remove the others")
        each = Fields(windows[0], fields.what, self._report)
        duration, rolling = each.take("duration"), each.flag("isRolling")
        calendar = each.take("calendar")
        each.refuse_unknown()
        if calendar is not None or rolling is False:
            each.bad(
                calendar or windows[0],
                "calendar windows are not supported yet: write isRolling: true without calendar",
            )
        if duration is None:
            each.bad(windows[0], "duration is missing")
            return DEFAULT_WINDOW
        window = self._duration(str(duration.data), duration, each)
        check_window(window, duration, each)
        return window

    def _duration(self, text: str, at: Located, fields: Fields) -> timedelta:
        count, unit = text[:-1], text[-1:]
        if unit in _CALENDAR_UNITS and count.isdigit():
            days = int(count) * _CALENDAR_UNITS[unit]
            self._report.warn(
                fields.what, at, f"{text} has no fixed length in a rolling window: {days}d is taken"
            )
            return timedelta(days=days)
        if unit == "m" and count.isdigit() and int(count) <= 12:
            days = int(count) * 30
            self._report.warn(
                fields.what, at,
                f"{text} is {count} minutes in OpenSLO v1, which is no budget window: {days}d is "
                f"taken; write {count}M or {days}d",
            )  # fmt: skip
            return timedelta(days=days)
        try:
            return parse_duration(text)
        except BadInput as error:
            fields.bad(at, f"duration: {error}")
            return DEFAULT_WINDOW


def slice_length(at: Located | None) -> timedelta:
    """Read `timeSliceWindow`: a duration, or a number of minutes."""
    if at is None:
        return timedelta(minutes=1)
    if isinstance(at.data, (int, float)) and not isinstance(at.data, bool):
        return timedelta(minutes=at.data)
    try:
        return parse_duration(str(at.data))
    except BadInput as error:
        raise BadInput(f"timeSliceWindow: {error}") from error


def _slug(text: str) -> str:
    return _NOT_A_SLUG.sub("-", text.lower()).strip("-")
