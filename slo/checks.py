"""Rules that every kind of SLO document obeys, each with a message that says the cure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from base.durations import format_duration
from slo.columns import GROUP_COLUMNS
from slo.expression import Expression, columns_of
from slo.fields import Fields
from slo.located import Located
from slo.parse import Clause
from slo.slices import Slices, whole_slices
from slo.tiers import Tier, can_fire, max_burn, outage_to_fire

DEFAULT_WINDOW = timedelta(days=30)
LONGEST_WINDOW = timedelta(days=366)
SHORTEST_WINDOW = timedelta(minutes=1)
_LATE = timedelta(minutes=5)
SMALLEST_SHARE = 1e-9  # of requests: what a double still tells apart by three digits

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?")


def check_name(name: object, at: Located, fields: Fields) -> None:
    if name is None:
        fields.bad(at, "name is missing")
    elif not isinstance(name, str) or not _NAME.fullmatch(name):
        fields.bad(
            at,
            f"name {name!r} must be lower case letters, digits and dashes, at most 64, "
            "and start and end with a letter or digit",
        )


def check_window(window: timedelta, at: Located, fields: Fields) -> None:
    if not SHORTEST_WINDOW <= window <= LONGEST_WINDOW:
        fields.bad(at, "window must be between 1m and 366d")


def check_whole_slices(
    span: timedelta, slices: Slices | None, name: str, at: Located, fields: Fields
) -> bool:
    """Refuse a window that would end within a slice."""
    if slices is None or slices.holds(span):
        return True
    whole = whole_slices(span, slices.length)
    fields.bad(
        at,
        f"{name} {format_duration(span)} is not whole slices of {format_duration(slices.length)}: "
        f"write {format_duration(whole)}",
    )
    return False


def check_objective(percent: float, at: Located, fields: Fields) -> float | None:
    if not 0 < percent < 100:
        fields.bad(
            at,
            f"objective {percent:g} is outside (0, 100)"
            + (": a budget of zero cannot be kept, use 99.99 or less" if percent == 100 else ""),
        )
        return None
    objective = round(percent / 100, 12)
    if not SMALLEST_SHARE <= objective <= 1 - SMALLEST_SHARE:
        fields.bad(at, f"objective {percent!r} is too near to 0 or 100 to be counted")
        return None
    return objective


def read_group_by(fields: Fields, key: str) -> tuple[str, ...]:
    columns = []
    for item in fields.items(key):
        if item.data not in GROUP_COLUMNS:
            fields.bad(item, f"{key} {item.data!r} is not one of {', '.join(GROUP_COLUMNS)}")
        elif item.data in columns:
            fields.bad(item, f"{key} names {item.data!r} twice")
        else:
            columns.append(item.data)
    return tuple(columns)


def warn_of_failures_that_pass(
    good: tuple[Clause, ...], eligible: Expression | None, fields: Fields
) -> None:
    read = frozenset().union(*(columns_of(clause.expression) for clause in good))
    if eligible is not None:
        read |= columns_of(eligible)
    if "outcome" not in read and "outcome_reason" not in read:
        fields.report.warn(
            fields.what, fields.at,
            "neither good nor eligible names outcome: a failed request that meets good counts as "
            "good; add outcome = 'good' if that is not meant",
        )  # fmt: skip


def check_tier(
    tier: Tier, objective: float, window: timedelta, fields: Fields, slices: Slices | None = None
) -> bool:
    """Refuse a tier that could never fire; warn of one that alerts while within budget."""
    if not can_fire(tier.factor, objective):
        fields.bad(
            fields.at,
            f"tier {tier.name!r} can never fire: a total outage burns at "
            f"{max_burn(objective):.4g} and its factor is {tier.factor:g}; lower the factor or "
            "leave tiers out to have them derived",
        )
        return False
    if not timedelta(0) < tier.short < tier.long <= window:
        fields.bad(fields.at, f"tier {tier.name!r} needs short < long <= window")
        return False
    for name, span in (("long", tier.long), ("short", tier.short)):
        at = fields.at.get(name) or fields.at
        if not check_whole_slices(span, slices, f"tier {tier.name!r}: {name}", at, fields):
            return False
    if tier.factor < 1:
        fields.report.warn(
            fields.what, fields.at,
            f"tier {tier.name!r} has a factor below 1: it alerts while the objective is met",
        )  # fmt: skip
    return True


def check_classic(
    tiers: Sequence[Tier], others: Sequence[Tier], objective: float, at: Located, fields: Fields
) -> None:
    """Refuse classic tiers that could never fire here; warn of those that page late.

    `others` are the derived ones, which would do better.
    """
    derived = {tier.name: tier for tier in others}
    dead = [tier for tier in tiers if not can_fire(tier.factor, objective)]
    for tier in dead:
        fields.bad(
            at,
            f"classic tier {tier.name!r} can never fire: a total outage burns at "
            f"{max_burn(objective):.4g} and its factor is {tier.factor:g}; write tiers: derived"
            + (f", where it is {derived[tier.name].factor:g}" if tier.name in derived else ""),
        )
    late, soon = _until_page(tiers, objective), _until_page(tuple(derived.values()), objective)
    if not dead and late is not None and soon is not None and late > max(_LATE, soon):
        fields.report.warn(
            fields.what, at,
            f"the classic tiers page after {format_duration(late)} of a total outage; the derived "
            f"ones after {format_duration(soon)}: write tiers: derived",
        )  # fmt: skip


def _until_page(tiers: Sequence[Tier], objective: float) -> timedelta | None:
    times = [outage_to_fire(tier, objective) for tier in tiers if tier.severity == "page"]
    found = min((each for each in times if each is not None), default=None)
    return None if found is None else timedelta(seconds=round(found.total_seconds()))
