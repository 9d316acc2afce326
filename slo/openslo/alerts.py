"""OpenSLO alert policies -> tiers.

A policy has exactly one condition (the format cannot say "long and short window"), so the short
window is `alertAfter`: what must have gone on that long. Where it is not shorter than the lookback,
a twelfth of the lookback is taken, as the classic tiers do.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from slo.checks import check_tier
from slo.fields import Fields
from slo.located import Located
from slo.openslo.objects import Objects, OpenSloObject, read_object
from slo.slices import MIN_BAD, Slices, whole_slices
from slo.tiers import Tier, hold_of

_EXCEEDS = {"gt", "gte"}


def read_condition(found: OpenSloObject, objects: Objects) -> Tier | None:
    """Read an AlertCondition as a tier; whether it can fire depends on the SLO that uses it."""
    spec = Fields(found.spec, found.what, objects.report)
    severity = spec.text("severity", required=True)
    at = spec.mapping("condition", required=True)
    if at is None:
        return None
    fields = Fields(at, found.what, objects.report)
    kind = fields.text("kind") or "burnrate"
    operator = fields.text("op")
    factor = fields.number("threshold")
    long = fields.duration("lookbackWindow", required=True)
    after = fields.duration("alertAfter") if fields.at.get("alertAfter") else None
    fields.take("alertAfter")
    fields.refuse_unknown()
    if kind.lower() != "burnrate":
        fields.bad(at, f"condition kind {kind!r} is not burnrate, the only one OpenSLO defines")
        return None
    if operator is not None and operator not in _EXCEEDS:
        fields.report.warn(
            found.what, at,
            f"op {operator!r} would alert while the burn is low; it is read as gte, because early "
            "OpenSLO examples wrote lte for 'exceeds': write gte",
        )  # fmt: skip
    if factor is None or factor <= 0:
        fields.bad(at, "threshold must be a burn rate above 0")
        return None
    if long is None:
        return None
    short = after if after is not None and after < long else max(timedelta(seconds=10), long / 12)
    paging = (severity or "").lower() in {"page", "critical"}
    return Tier(found.name, "page" if paging else "ticket", factor, long, short)


def read_policies(
    slo: OpenSloObject,
    objective: float,
    window: timedelta,
    objects: Objects,
    slices: Slices | None = None,
) -> tuple[Tier, ...]:
    """Read every policy of an SLO; problems are reported at the place that has them.

    Short windows are rounded up to whole slices, as OpenSLO has no word for them.
    """
    fields = Fields(slo.spec, slo.what, objects.report)
    tiers: list[Tier] = []
    for item in fields.items("alertPolicies"):
        policy = _inline_or_ref(item, "AlertPolicy", slo.what, objects)
        tier = read_policy(policy, objects) if policy else None
        if tier is None:
            continue
        if slices is not None:
            short = whole_slices(tier.short, slices.length)
            tier = replace(tier, short=short, min_bad=MIN_BAD)
        check_tier(tier, objective, window, Fields(item, slo.what, objects.report), slices)
        if all(tier.name != other.name for other in tiers):
            tiers.append(replace(tier, hold=hold_of(tier.short, window)))
    return tuple(tiers)


def read_policy(policy: OpenSloObject, objects: Objects) -> Tier | None:
    fields = Fields(policy.spec, policy.what, objects.report)
    conditions = fields.items("conditions")
    if len(conditions) != 1:
        fields.bad(policy.spec, f"a policy has exactly one condition, not {len(conditions)}")
        return None
    condition = _inline_or_ref(conditions[0], "AlertCondition", policy.what, objects)
    return read_condition(condition, objects) if condition else None


def _inline_or_ref(item: Located, kind: str, what: str, objects: Objects) -> OpenSloObject | None:
    if not isinstance(item.data, dict):
        objects.report.problem(what, item, f"a {kind} is written inline or by reference")
        return None
    key = kind[0].lower() + kind[1:] + "Ref"
    reference = item.get(key) or item.get("conditionRef")
    if reference is not None:
        return objects.refer(kind, reference, what)
    return read_object(item, objects.report, kind)
