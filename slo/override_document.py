"""The `overrides:` of an SLO document: another objective for some of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeVar

from slo.checks import check_classic, check_objective
from slo.fields import Fields, Report
from slo.located import Located
from slo.overrides import Matching, Override
from slo.slices import Slices
from slo.tier_document import read_min_bad, read_tiers
from slo.tiers import Tier, can_fire, classic, derive, max_burn

_Kind = TypeVar("_Kind", bound=Matching)
_SETTINGS = ("objective", "tiers", "min_bad", "labels", "annotations")


def read_overrides(
    fields: Fields,
    group_by: Sequence[str],
    objective: float | None,
    window: timedelta,
    min_bad: int,
    slices: Slices | None = None,
) -> tuple[Override, ...]:
    """Read them in order; the first that matches a group holds for it.

    What an override leaves out is the SLO's: `objective`, `min_bad`, and its `tiers`, which are
    derived anew for another objective where the document has them derived. Without an `objective`,
    of a document that has problems, they are not looked into.
    """
    items = fields.items("overrides")
    if objective is None:
        return ()
    found: list[tuple[Override, Located]] = []
    for number, item in enumerate(items, 1):
        each = Fields(item, f"{fields.what} override {number}", fields.report)
        override = _override(each, fields, group_by, objective, window, min_bad, slices)
        if override is None:
            continue
        add_in_order(each, override, item, found)
    return tuple(override for override, _ in found)


def add_in_order(
    each: Fields, override: _Kind, item: Located, found: list[tuple[_Kind, Located]]
) -> None:
    """Add an override, or say which one before it already holds for all its groups."""
    before = next(((other, at) for other, at in found if other.covers(override)), None)
    if before is None:
        found.append((override, item))
    elif override.covers(before[0]):
        each.bad(item, f"{override} is matched by the one in line {before[1].line} already: "
                 "remove one of the two")  # fmt: skip
    else:
        each.bad(
            item,
            f"it can never hold: the first that matches does, and the one in line "
            f"{before[1].line} matches all that {override} matches; write the narrower first",
        )


def _override(
    each: Fields,
    slo: Fields,
    group_by: Sequence[str],
    objective: float,
    window: timedelta,
    min_bad: int,
    slices: Slices | None,
) -> Override | None:
    before = len(each.report.problems)
    if not isinstance(each.at.data, dict):
        each.bad(each.at, "an override is a mapping: {match: {tenant: acme}, objective: 99.9}")
        return None
    match = read_match(each, group_by)
    if (price := each.take("cost")) is not None:
        each.bad(price, "cost: the SLO has an objective and is not about cost")
    stated = each.take("objective")
    percent = each.number("objective")
    own = objective
    if stated is not None and percent is not None:
        own = check_objective(percent, stated, each) or objective
    needed = read_min_bad(each, min_bad)
    if each.at.get("tiers") is not None:
        tiers = read_tiers(each, own, window, needed, slices)
    else:
        both = (objective, own)
        tiers = _inherited(slo, each, stated or each.at, both, window, needed, slices)
        each.take("tiers")
    labels, annotations = each.texts("labels"), each.texts("annotations")
    each.refuse_unknown()
    if all(each.at.get(name) is None for name in _SETTINGS):
        each.bad(each.at, f"it changes nothing: give it one of {', '.join(_SETTINGS)}")
    if len(each.report.problems) > before:
        return None
    return Override(match, own, tiers, labels, annotations, stated is not None)


def read_match(each: Fields, group_by: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Read which groups are meant, by members that the SLO is grouped by."""
    at = each.mapping("match", required=True)
    if at is None:
        return ()
    if not at.data:
        each.bad(at, "match is empty: name members such as {tenant: acme}, or change the SLO")
    found: dict[str, tuple[str, ...]] = {}
    for name, value in at.data.items():
        if name not in group_by:
            grouped = ", ".join(group_by) or "nothing"
            each.report.problem(
                each.what, at,
                f"match names {name!r}, and the SLO is grouped by {grouped}: add it to group_by, "
                "or match a member of that",
                line=at.keys.get(name),
            )  # fmt: skip
            continue
        found[name] = _values(each, name, value)
    return tuple((name, found[name]) for name in group_by if name in found)


def _values(each: Fields, name: str, at: Located) -> tuple[str, ...]:
    several = at.data if isinstance(at.data, list) else [at]
    values: list[str] = []
    for item in several:
        if not isinstance(item.data, str):
            each.bad(item, f"match: {name} {item.plain()!r} is not text: put it in quotes")
        elif item.data in values:
            each.bad(item, f"match names {name} {item.data!r} twice")
        else:
            values.append(item.data)
    if not several:
        each.bad(at, f"match: {name} has no values, so nothing matches")
    return tuple(values)


def _inherited(
    slo: Fields,
    each: Fields,
    at: Located,
    objectives: tuple[float, float],
    window: timedelta,
    min_bad: int,
    slices: Slices | None,
) -> tuple[Tier, ...]:
    """Take the tiers of the SLO, as they are for the override's objective; refuse dead ones."""
    theirs, own = objectives
    length = slices.length if slices is not None else None
    written = slo.at.get("tiers")
    if written is None or written.data == "derived":
        return derive(own, window, min_bad, length)
    if written.data == "classic":
        tiers = classic(window, min_bad, length)
        if own != theirs:
            check_classic(tiers, derive(own, window, min_bad, length), own, at, each)
        return tiers
    tiers = read_tiers(Fields(slo.at, slo.what, Report()), theirs, window, min_bad, slices)
    for tier in tiers:
        if not can_fire(tier.factor, own):
            each.bad(
                at,
                f"tier {tier.name!r} of the SLO can never fire here: a total outage burns at "
                f"{max_burn(own):.4g} and its factor is {tier.factor:g}; give the override tiers "
                "of its own, such as tiers: derived",
            )
    return tiers
