"""OpenSLO v1alpha, v1 and v2alpha -> native documents, references inlined.

The three versions differ in the names of fields alone, so each field is looked for under all of
its names: `indicator` or `sli`, `timeWindow` or `timeWindows`, `metricSource` or what stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from base.durations import parse_duration
from base.errors import BadInput
from slo.imports.draft import Draft, name_of, number_of, string_of, texts_of
from slo.imports.openslo_alerts import read_policies
from slo.imports.openslo_objects import Objects, check_object
from slo.imports.openslo_sources import Indicator, read_sli
from slo.imports.openslo_window import read_time_window
from slo.imports.outcome import Imported, Refusal
from slo.imports.sli import slices
from slo.located import Located, locate

_METHODS = ("Occurrences", "Timeslices", "RatioTimeslices")
_DEFAULT_SLICE = timedelta(minutes=1)
_KNOWN_OF_OBJECTIVES = (
    "displayName", "op", "value", "target", "targetPercent", "timeSliceTarget", "timeSliceWindow",
    "indicator", "indicatorRef", "sli", "sliRef", "compositeWeight", "ratioMetrics",
    "timeWindow", "timeWindows",
)  # fmt: skip
_KNOWN = {
    "description", "service", "indicator", "indicatorRef", "sli", "sliRef", "timeWindow",
    "timeWindows", "budgetingMethod", "objectives", "alertPolicies",
}  # fmt: skip


def import_slo(found: Located, objects: Objects) -> Iterator[Imported | Refusal]:
    """Yield one document, or why not, for each objective of an SLO object."""
    metadata, spec = check_object(found)
    name = string_of(metadata.get("name"))
    objectives = spec.get("objectives")
    if objectives is None or not isinstance(objectives.data, list) or not objectives.data:
        raise Refusal(spec, "objectives is missing: at least one target is needed")
    for number, at in enumerate(objectives.data):
        draft = Draft(f"OpenSLO SLO {name!r}", at)
        try:
            yield _one(draft, found, number, len(objectives.data), objects)
        except BadInput as error:
            where = error.at if isinstance(error, Refusal) else at
            yield Refusal(where, str(error), draft.what)


def import_plain(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Import one SLO with one objective given as plain data; BadInput if it is refused."""
    (found,) = import_slo(locate(dict(document)), Objects())
    if isinstance(found, Refusal):
        raise found
    return found.document


def _one(draft: Draft, found: Located, number: int, of: int, objects: Objects) -> Imported:
    metadata, spec = check_object(found)
    at = draft.at
    own = _indicator(at, "the objective")
    _name(draft, metadata, at, own, number, of)
    target = at.get("target") or at.get("targetPercent")
    share = number_of(target)
    if target is None or share is None:
        raise Refusal(at, "an objective has either target (0.99) or targetPercent (99)")
    percent = share * 100 if at.get("target") is not None else share
    if at.get("target") is not None and share >= 1:
        raise Refusal(target, f"target {share:g} is outside [0, 1): write targetPercent: {share:g}")
    draft.set_objective(percent, target)
    if not string_of(spec.get("service")):
        raise Refusal(spec, "service is missing")
    read_time_window(draft, spec)
    sliced = _method(draft, spec)
    indicator = own or _indicator(spec, "the SLO")
    if indicator is None and at.get("ratioMetrics") is not None:
        indicator = Indicator(at, None, at)  # v1alpha writes a ratio into each objective
    if indicator is None:
        raise Refusal(spec, "an SLO has an indicator (sli) or a reference to one")
    if own is not None:
        draft.lost(
            "a composite of several indicators has no defined arithmetic in OpenSLO: each "
            "component is an SLO of its own, its weight is not used; a native `composite` can "
            "put them together",
            at,
        )
    sli = read_sli(draft, indicator, objects, name=draft.name)
    draft.set_sli(sli if sliced is None else slices(sli, *sliced), indicator.at)
    description = string_of(spec.get("description")) or string_of(metadata.get("displayName"))
    draft.set_text("description", description)
    draft.labels |= texts_of(metadata.get("labels")) | {"service": string_of(spec.get("service"))}
    draft.annotations |= texts_of(metadata.get("annotations"))
    read_policies(draft, spec.get("alertPolicies"), objects)
    display = string_of(metadata.get("displayName"))
    if display and display != description:
        draft.annotations.setdefault("display_name", display)
    draft.lose_rest(spec, *_KNOWN)
    draft.lose_rest(metadata, "name", "displayName", "labels", "annotations")
    draft.lose_rest(at, *_KNOWN_OF_OBJECTIVES)
    return draft.finish()


def _name(draft: Draft, metadata: Located, at: Located, own: object, number: int, of: int) -> None:
    name = string_of(metadata.get("name"))
    if of == 1 and own is None:
        draft.set_name(name, metadata.get("name"))
        return
    part = string_of(at.get("displayName")) or str(number + 1)
    draft.set_name(name_of(name, part) if name_of(part) else name_of(name, str(number + 1)))
    draft.fixed(f"objective {number + 1} of {of} is an SLO of its own", at)


def _indicator(at: Located, what: str) -> Indicator | None:
    inline = at.get("indicator") or at.get("sli")
    reference = at.get("indicatorRef") or at.get("sliRef")
    if inline is not None and reference is not None:
        raise Refusal(reference, f"{what} has both an indicator and a reference to one")
    if inline is None and reference is None:
        return None
    return Indicator(inline, reference, inline or reference or at)


def _method(draft: Draft, spec: Located) -> tuple[timedelta, float | None] | None:
    """Read the budgeting method: None counts events, else slices of a width and a target."""
    at = draft.at
    method_at = spec.get("budgetingMethod")
    method = string_of(method_at) or "Occurrences"
    if method not in _METHODS:
        raise Refusal(method_at or spec, f"budgetingMethod {method!r} is none of {_METHODS}")
    if method_at is None:
        draft.fixed("budgetingMethod is missing: Occurrences is taken", spec)
    if method == "Occurrences":
        return None
    share = number_of(at.get("timeSliceTarget"))
    if method == "Timeslices" and share is None:
        raise Refusal(at, "timeSliceTarget is required with budgetingMethod Timeslices")
    if share is not None and not 0 < share <= 1:
        raise Refusal(
            at.get("timeSliceTarget") or at, f"timeSliceTarget {share:g} is not in (0, 1]"
        )
    return _slice(draft, at), share if method == "Timeslices" else None


def _slice(draft: Draft, at: Located) -> timedelta:
    width = at.get("timeSliceWindow")
    if width is None:
        draft.fixed("timeSliceWindow is missing: slices of 1m are taken", at)
        return _DEFAULT_SLICE
    minutes = number_of(width)
    try:
        span = timedelta(minutes=minutes) if minutes else parse_duration(string_of(width))
    except BadInput as error:
        raise Refusal(width, f"timeSliceWindow: {error}") from error
    if span <= timedelta(0):
        raise Refusal(width, "timeSliceWindow must be longer than nothing")
    return span
