"""The `slices:` of an SLO document: what a slice of time is."""

from __future__ import annotations

from base.durations import format_duration
from base.errors import BadInput
from slo.fields import Fields
from slo.prometheus.sli import PrometheusSli, Queries
from slo.slices import Slices, make_slices


def weighs(what: str) -> str:
    """Say why requests that weigh more or less than one have no slices."""
    return f"slices are judged by requests that each count as one: leave {what} out"


def read_slices(fields: Fields, prometheus: PrometheusSli | None) -> Slices | None:
    """Read `slices`; None: the SLO counts requests, or the field has problems."""
    at = fields.mapping("slices")
    if at is None:
        return None
    each = Fields(at, fields.what, fields.report)
    length, percent = each.duration("length", required=True), each.number("good")
    if each.at.get("good") is None:
        each.bad(at, "good is missing: the percentage of a slice's requests that must be good")
    each.refuse_unknown()
    if length is None or percent is None:
        return None
    try:
        slices = make_slices(length, percent)
    except BadInput as error:
        fields.bad(at, f"slices: {error}")
        return None
    composite = fields.at.get("composite")
    is_sum = composite is not None and composite.get("sum") is not None
    if is_sum or fields.at.get("weight") is not None:
        fields.bad(at, weighs("a sum of SLOs" if is_sum else "its weight"))
    events = prometheus.events if prometheus is not None else None
    if isinstance(events, Queries) and length % events.resolution:
        fields.bad(
            at,
            f"slices of {format_duration(length)} are not made of answers of "
            f"{format_duration(events.resolution)}: take a length that is, or another resolution",
        )
    return slices
