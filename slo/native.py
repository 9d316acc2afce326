"""The native SLO document: `kind: slo`, one short YAML mapping.

The components of a composite are only named here; `slo.components` looks them up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from base.errors import BadInput
from slo.calendar import Calendar, read_calendar
from slo.checks import (
    DEFAULT_WINDOW,
    check_name,
    check_objective,
    check_whole_slices,
    check_window,
    read_group_by,
    warn_of_failures_that_pass,
)
from slo.fields import Fields, Report
from slo.located import Located
from slo.model import Slo
from slo.override_document import read_overrides
from slo.parse import Clause, parse_clauses, parse_filter
from slo.prometheus.document import read_labels, read_prometheus
from slo.slice_document import read_slices
from slo.slices import MIN_BAD as MIN_BAD_SLICES
from slo.tier_document import read_min_bad, read_tiers
from slo.tiers import MIN_BAD
from slo.weight_document import read_composite, read_weight

DEFAULT_GOOD = "outcome = 'good'"
_T = TypeVar("_T")


def read_native(document: Located, report: Report) -> Slo | None:
    """Read one document; None when it has problems, which `report` then holds."""
    name_at = document.get("name")
    name = name_at.data if name_at is not None else None
    fields = Fields(document, f"slo {name!r}" if name else "slo", report)
    before = len(report.problems)
    for known in ("kind", "name", "cost"):
        fields.take(known)
    check_name(name, name_at or document, fields)
    objective = _objective(fields)
    window = fields.duration("window") or DEFAULT_WINDOW
    check_window(window, document.get("window") or document, fields)
    calendars = calendars_of(fields)
    from_prometheus = fields.at.get("prometheus") is not None
    prometheus = read_prometheus(fields)
    slices = read_slices(fields, prometheus)
    check_whole_slices(window, slices, "window", document.get("window") or document, fields)
    composite, weight = read_composite(fields), read_weight(fields)
    group_by = (read_labels if from_prometheus else read_group_by)(fields, "group_by")
    asks = not from_prometheus and fields.at.get("composite") is None
    eligible = expression_of(fields, "eligible", parse_filter) if asks else None
    good = good_of(fields) if asks else ()
    min_bad = read_min_bad(fields, MIN_BAD if slices is None else MIN_BAD_SLICES)
    description = fields.text("description") or ""
    labels, annotations = fields.texts("labels"), fields.texts("annotations")
    tiers = read_tiers(fields, objective, window, min_bad, slices)
    sound = objective if len(report.problems) == before else None
    overrides = read_overrides(fields, group_by, sound, window, min_bad, slices)
    fields.refuse_unknown(("eligible", "good"))
    if len(report.problems) > before or objective is None:
        return None
    if asks:
        warn_of_failures_that_pass(good, eligible, fields)
    return Slo(
        name=str(name),
        objective=objective,
        window=window,
        good=good,
        tiers=tiers,
        eligible=eligible,
        group_by=group_by,
        description=description,
        labels=labels,
        annotations=annotations,
        source=f"{document.file}:{document.line}",
        calendars=calendars,
        prometheus=prometheus,
        overrides=overrides,
        weight=weight,
        composite=composite,
        slices=slices,
    )


def _objective(fields: Fields) -> float | None:
    at = fields.take("objective")
    percent = fields.number("objective")
    if at is None:
        fields.bad(fields.at, "objective is missing: write a percentage such as 99.5")
        return None
    return None if percent is None else check_objective(percent, at, fields)


def calendars_of(fields: Fields) -> tuple[Calendar, ...]:
    """Read `calendar`: a period, a mapping of period and zone, or a list of those."""
    at = fields.take("calendar")
    if at is None:
        return ()
    found: list[Calendar] = []
    for item in at.data if isinstance(at.data, list) else [at]:
        calendar = _calendar(item, fields)
        if calendar in found:
            fields.bad(item, f"calendar {calendar.period} in {calendar.zone} is written twice")
        elif calendar is not None:
            found.append(calendar)
    return tuple(found)


def _calendar(at: Located, fields: Fields) -> Calendar | None:
    period, zone = at.data, "UTC"
    if isinstance(at.data, dict):
        each = Fields(at, fields.what, fields.report)
        period, zone = each.text("period", required=True), each.text("zone") or "UTC"
        each.refuse_unknown()
        if period is None:
            return None
    try:
        return read_calendar(str(period), zone)
    except BadInput as error:
        fields.bad(at, f"calendar: {error}")
        return None


def good_of(fields: Fields) -> tuple[Clause, ...]:
    at = fields.take("good")
    if at is None:
        return parse_clauses(DEFAULT_GOOD)
    if isinstance(at.data, dict):
        clauses = [
            Clause(name, expression)
            for name, value in at.data.items()
            if (expression := _read(fields, value, f"good.{name}", parse_filter)) is not None
        ]
        if not at.data:
            fields.bad(at, "good has no clauses")
        return tuple(clauses)
    return _read(fields, at, "good", parse_clauses) or ()


def expression_of(fields: Fields, key: str, parse: Callable[[str], _T]) -> _T | None:
    at = fields.take(key)
    return None if at is None else _read(fields, at, key, parse)


def _read(fields: Fields, at: Located, key: str, parse: Callable[[str], _T]) -> _T | None:
    if not isinstance(at.data, (str, bool)):
        fields.bad(at, f"{key} is not an expression: put it in quotes")
        return None
    try:
        return parse(str(at.data))
    except BadInput as error:
        fields.bad(at, f"{key}: {error}")
        return None
