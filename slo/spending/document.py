"""A native SLO document with `cost:` in place of `objective`."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from slo.checks import DEFAULT_WINDOW, check_name, check_window, read_group_by
from slo.fields import Fields, Report
from slo.located import Located
from slo.native import calendars_of, expression_of, good_of
from slo.override_document import add_in_order, read_match
from slo.parse import parse_filter
from slo.spending.model import PICO, CostOverride, CostSlo, Idle, Per
from slo.spending.tiers import derive
from slo.tier_document import read_tier
from slo.tiers import Tier

_MINUTE = timedelta(minutes=1)
_MOST_USD = 10**6
_OF_A_TASK = frozenset({"tenant", "user_id", "feature", "app_version", "priority"})
_OVERRIDDEN = ("cost", "tiers", "labels", "annotations")
_MEANINGLESS = {
    "objective": "an SLO is about a share of requests or about cost: leave objective out",
    "min_bad": "spending is not counted in bad requests: write cost.min_overspend_usd",
    "prometheus": "cost is of requests seen here: leave prometheus out",
    "weight": "a request weighs what it costs: leave weight out",
    "slices": "a slice of time has no price: leave slices out",
    "composite": "cost is one sum of dollars: write eligible for the requests that are meant",
}


def read_cost_slo(document: Located, report: Report) -> CostSlo | None:
    """Read one document; None when it has problems, which `report` then holds."""
    name_at = document.get("name")
    name = name_at.data if name_at is not None else None
    fields = Fields(document, f"slo {name!r}" if name else "slo", report)
    before = len(report.problems)
    for known in ("kind", "name"):
        fields.take(known)
    check_name(name, name_at or document, fields)
    for key, cure in _MEANINGLESS.items():
        at = fields.take(key)
        if at is not None:
            fields.bad(at, f"{key} beside cost: {cure}")
    window = fields.duration("window") or DEFAULT_WINDOW
    check_window(window, document.get("window") or document, fields)
    _check_minutes("window", window, document.get("window") or document, fields)
    target = fields.mapping("cost")
    at_most, per, idle, least = (
        (None, None, Idle.APART, None)
        if target is None
        else _target(Fields(target, fields.what, report))
    )
    group_by = read_group_by(fields, "group_by")
    if per is Per.TASK and (several := [each for each in group_by if each not in _OF_A_TASK]):
        fields.bad(
            document.get("group_by") or document,
            f"group_by {', '.join(several)}: the requests of a task may go to several; a task "
            f"has one {', '.join(sorted(_OF_A_TASK))}",
        )
    calendars = calendars_of(fields)
    eligible = expression_of(fields, "eligible", parse_filter)
    good = good_of(fields)
    description = fields.text("description") or ""
    labels, annotations = fields.texts("labels"), fields.texts("annotations")
    tiers = _tiers(fields, window)
    is_sound = len(report.problems) == before and at_most is not None
    overrides = _overrides(
        fields, group_by, window, (at_most or 0, PICO if least is None else least), tiers,
        is_sound=is_sound,
    )  # fmt: skip
    fields.refuse_unknown()
    if len(report.problems) > before or at_most is None or per is None:
        return None
    return CostSlo(
        name=str(name),
        at_most=at_most,
        per=per,
        window=window,
        tiers=tiers,
        good=good,
        eligible=eligible,
        group_by=group_by,
        idle=idle,
        min_overspend=PICO if least is None else least,
        description=description,
        labels=labels,
        annotations=annotations,
        source=f"{document.file}:{document.line}",
        calendars=calendars,
        overrides=overrides,
    )


def _overrides(
    fields: Fields,
    group_by: tuple[str, ...],
    window: timedelta,
    theirs: tuple[int, int],
    tiers: tuple[Tier, ...],
    *,
    is_sound: bool,
) -> tuple[CostOverride, ...]:
    """Read another price, or other tiers, for some groups; what is left out is the SLO's."""
    found: list[tuple[CostOverride, Located]] = []
    for number, item in enumerate(fields.items("overrides"), 1):
        if not is_sound:  # they are not looked into
            return ()
        each = Fields(item, f"{fields.what} override {number}", fields.report)
        override = _override(each, group_by, window, theirs, tiers)
        if override is not None:
            add_in_order(each, override, item, found)
    return tuple(override for override, _ in found)


def _override(
    each: Fields,
    group_by: tuple[str, ...],
    window: timedelta,
    theirs: tuple[int, int],
    tiers: tuple[Tier, ...],
) -> CostOverride | None:
    before = len(each.report.problems)
    if not isinstance(each.at.data, dict):
        each.bad(
            each.at, "an override is a mapping: {match: {tenant: acme}, cost: {at_most_usd: 1}}"
        )
        return None
    match = read_match(each, group_by)
    for key in ("objective", "min_bad"):
        if (at := each.take(key)) is not None:
            each.bad(at, f"{key} beside cost: {_MEANINGLESS[key]}")
    at_most, least = theirs
    target = each.mapping("cost")
    if target is not None:
        own = Fields(target, each.what, each.report)
        at_most = _price(own) or at_most
        stated = _dollars(own, "min_overspend_usd")
        least = least if stated is None else stated
        own.refuse_unknown()
    if each.at.get("tiers") is not None:
        tiers = _tiers(each, window)
    each.take("tiers")
    labels, annotations = each.texts("labels"), each.texts("annotations")
    each.refuse_unknown()
    if all(each.at.get(name) is None for name in _OVERRIDDEN):
        each.bad(each.at, f"it changes nothing: give it one of {', '.join(_OVERRIDDEN)}")
    if len(each.report.problems) > before:
        return None
    return CostOverride(match, at_most, least, tiers, labels, annotations)


def _price(fields: Fields, *, required: bool = False) -> int | None:
    at_most = _dollars(fields, "at_most_usd", required=required)
    if at_most == 0:
        fields.bad(
            fields.at, "at_most_usd 0 would be spent by anything: write what a unit may cost"
        )
    return at_most


def _target(fields: Fields) -> tuple[int | None, Per | None, Idle, int | None]:
    at_most = _price(fields, required=True)
    per = fields.text("per", required=True)
    idle = fields.text("idle") or Idle.APART.value
    least = _dollars(fields, "min_overspend_usd")
    fields.refuse_unknown()
    if per is not None and per not in set(Per):
        fields.bad(fields.at, f"per {per!r} is not one of {', '.join(Per)}")
        per = None
    if idle not in set(Idle):
        fields.bad(fields.at, f"idle {idle!r} is neither apart nor shared")
        idle = Idle.APART.value
    return at_most, None if per is None else Per(per), Idle(idle), least


def _dollars(fields: Fields, key: str, *, required: bool = False) -> int | None:
    """Read dollars as pico-dollars: what is written, not the double nearest to it."""
    at = fields.at.get(key)
    number = fields.number(key)
    if at is None and required:
        fields.bad(fields.at, f"{key} is missing: write dollars such as 0.004")
    if number is None or at is None:
        return None
    if not 0 <= number <= _MOST_USD:  # neither is NaN
        fields.bad(at, f"{key} {at.data!r} is not between 0 and {_MOST_USD:,} dollars")
        return None
    written = Decimal(str(at.data))
    if written * PICO % 1:
        fields.bad(at, f"{key} {at.data!r} has more than twelve decimals")
        return None
    return int(written * PICO)


def _tiers(fields: Fields, window: timedelta) -> tuple[Tier, ...]:
    at = fields.take("tiers")
    named = "derived" if at is None else at.data
    if isinstance(named, str):
        if named != "derived":
            fields.bad(
                at or fields.at,
                f"tiers {named!r} beside cost is neither derived nor a list of tiers"
                + (": the classic ones are about failures" if named == "classic" else ""),
            )
        return derive(window)
    tiers: list[Tier] = []
    for item in fields.items("tiers"):
        each = Fields(item, fields.what, fields.report)
        tier = read_tier(each, window, 0)
        if tier is None or not _check_tier(tier, window, each):
            continue
        if any(tier.name == other.name for other in tiers):
            fields.bad(item, f"two tiers are named {tier.name!r}")
            continue
        tiers.append(tier)
    return tuple(tiers)


def _check_tier(tier: Tier, window: timedelta, fields: Fields) -> bool:
    if tier.min_bad:
        fields.bad(fields.at, f"tier {tier.name!r}: min_bad: {_MEANINGLESS['min_bad']}")
        return False
    if not timedelta(0) < tier.short < tier.long <= window:
        fields.bad(fields.at, f"tier {tier.name!r} needs short < long <= window")
        return False
    if tier.factor < 1:
        fields.report.warn(
            fields.what, fields.at,
            f"tier {tier.name!r} has a factor below 1: it alerts while less is spent than may be",
        )  # fmt: skip
    return all(
        _check_minutes(f"tier {tier.name!r} {key}", length, fields.at, fields)
        for key, length in (("long", tier.long), ("short", tier.short))
    )


def _check_minutes(what: str, length: timedelta, at: Located, fields: Fields) -> bool:
    if length % _MINUTE:
        fields.bad(at, f"{what} is not whole minutes: spending is read by the minute")
    return not length % _MINUTE
