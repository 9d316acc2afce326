"""The `tiers:` of an SLO document: derived, classic, or a list."""

from __future__ import annotations

from datetime import timedelta

from slo.checks import check_classic, check_tier
from slo.fields import Fields
from slo.located import Located
from slo.slices import Slices
from slo.tiers import MIN_BAD, Tier, classic, derive, hold_of
from slo.verdict import Severity


def read_tiers(
    fields: Fields,
    objective: float | None,
    window: timedelta,
    min_bad: int,
    slices: Slices | None = None,
) -> tuple[Tier, ...]:
    """Read `tiers`; `min_bad` is what a tier needs that does not say."""
    at = fields.take("tiers")
    named = "derived" if at is None else at.data
    if isinstance(named, str):
        length = slices.length if slices is not None else None
        return _named_tiers(fields, at or fields.at, named, objective, window, min_bad, length)
    written = fields.items("tiers")
    if objective is None:
        return ()
    tiers: list[Tier] = []
    for item in written:
        each = Fields(item, fields.what, fields.report)
        tier = read_tier(each, window, min_bad)
        if tier is None or not check_tier(tier, objective, window, each, slices):
            continue
        if any(tier.name == other.name for other in tiers):
            fields.bad(item, f"two tiers are named {tier.name!r}")
            continue
        tiers.append(tier)
    return tuple(tiers)


def read_min_bad(fields: Fields, default: int = MIN_BAD) -> int:
    """Read `min_bad` of an SLO, of a tier, or of an override."""
    at = fields.take("min_bad")
    if at is None:
        return default
    if isinstance(at.data, bool) or not isinstance(at.data, int) or at.data < 1:
        fields.bad(at, f"min_bad {at.data!r} is not a whole number from 1")
        return default
    return at.data


def read_tier(fields: Fields, window: timedelta, min_bad: int) -> Tier | None:
    """Read one tier of a list."""
    if not isinstance(fields.at.data, dict):
        fields.bad(fields.at, "a tier is a mapping: {name, severity, factor, long, short}")
        return None
    name = fields.text("name", required=True)
    severity = fields.text("severity") or "page"
    factor = fields.number("factor")
    long = fields.duration("long", required=True)
    short = fields.duration("short", required=True)
    hold = fields.duration("hold")
    needed = read_min_bad(fields, min_bad)
    fields.refuse_unknown()
    if severity not in {"page", "ticket"}:
        fields.bad(fields.at, f"severity {severity!r} is neither page nor ticket")
        return None
    if factor is None or factor <= 0:
        fields.bad(fields.at, "factor must be a number above 0")
        return None
    if name is None or long is None or short is None:
        return None
    kind: Severity = "ticket" if severity == "ticket" else "page"
    return Tier(name, kind, factor, long, short, needed, hold or hold_of(short, window))


def _named_tiers(
    fields: Fields,
    at: Located,
    name: str,
    objective: float | None,
    window: timedelta,
    min_bad: int,
    slice_length: timedelta | None,
) -> tuple[Tier, ...]:
    if name not in {"derived", "classic"}:
        fields.bad(at, f"tiers {name!r} is neither derived nor classic nor a list of tiers")
    if objective is None:
        return ()
    if name != "classic":
        return derive(objective, window, min_bad, slice_length)
    tiers = classic(window, min_bad, slice_length)
    check_classic(tiers, derive(objective, window, min_bad, slice_length), objective, at, fields)
    return tiers
