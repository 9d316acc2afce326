"""OpenSLO alert policies -> tiers, with the conditions and targets they refer to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from base.durations import parse_duration
from base.errors import BadInput
from slo.imports.draft import Draft, name_of, number_of, string_of
from slo.imports.openslo_objects import Objects, check_object
from slo.imports.outcome import Refusal
from slo.imports.tiers import StatedTier, short_window
from slo.located import Located
from slo.tiers import Tier

_PAGING = {"page", "critical", "high", "p1", "sev1", "emergency", "alert"}
_BELOW = {"lt", "lte"}


def read_policies(draft: Draft, at: Located | None, objects: Objects) -> None:
    """Set the tiers of a draft; an SLO without policies gets derived ones."""
    items = at.data if at is not None and isinstance(at.data, list) else []
    stated: list[StatedTier] = []
    silent = False
    for item in items:
        policy = _follow(item, "AlertPolicy", "alertPolicyRef", objects)
        found, is_silent = read_policy(draft, policy, objects)
        stated += found
        silent = silent or is_silent
    if stated:
        draft.set_tiers(_paired(draft, stated))
    elif silent:
        draft.no_alerts(at)
    else:
        draft.kept("no alert policies: the tiers are derived from objective and window", at)


def read_policy(draft: Draft, policy: Located, objects: Objects) -> tuple[list[StatedTier], bool]:
    """Read the conditions of one policy, and whether it says to alert at all."""
    spec = policy.get("spec")
    conditions = spec.get("conditions") if spec else None
    if spec is None or conditions is None or not isinstance(conditions.data, list):
        raise Refusal(spec or policy, "a policy has conditions")
    read = (
        read_condition(draft, _follow(item, "AlertCondition", "conditionRef", objects))
        for item in conditions.data
    )
    stated = [each for each in read if each is not None]
    targets = spec.get("notificationTargets")
    for item in targets.data if targets is not None and isinstance(targets.data, list) else []:
        reference = item.get("targetRef") if isinstance(item.data, dict) else item
        metadata = item.get("metadata") if isinstance(item.data, dict) else None
        name = string_of(reference or (metadata.get("name") if metadata else None))
        draft.lost(f"notification target {name!r}: receivers are set in tokenweir.yaml", item)
    draft.lose_rest(
        spec, "conditions", "notificationTargets", "alertWhenNoData", "alertWhenResolved",
        "alertWhenBreaching",
    )  # fmt: skip
    no_data = spec.get("alertWhenNoData")
    if no_data is not None and no_data.data is True:
        draft.lost("alertWhenNoData: silence is a state of the verdict here, not an alert", no_data)
    resolved = spec.get("alertWhenResolved")
    if resolved is not None and resolved.data is False:
        draft.lost("alertWhenResolved: false: a resolve is always sent", resolved)
    breaching = spec.get("alertWhenBreaching")
    if breaching is not None and breaching.data is False:
        draft.fixed("alertWhenBreaching is false: the policy raises no alert", breaching)
        return [], True
    return stated, False


def read_condition(draft: Draft, found: Located) -> StatedTier | None:
    """Read one condition: its lookback is the long window, alertAfter the short one.

    None if it is about something else than a burn rate: that alert is lost, and the SLO is not.
    """
    metadata, spec = found.get("metadata"), found.get("spec")
    at = spec.get("condition") if spec else None
    if spec is None or at is None:
        raise Refusal(spec or found, "an AlertCondition has spec.condition")
    kind = string_of(at.get("kind")) or "burnrate"
    if kind.lower() != "burnrate" and "burn" not in kind.lower():
        draft.lost(f"condition kind {kind!r} is not burnrate: its alert is left out", at)
        return None
    if kind.lower() != "burnrate":
        draft.fixed(f"condition kind {kind!r} is read as burnrate", at.get("kind"))
    factor = number_of(at.get("threshold"))
    if factor is None or factor <= 0:
        raise Refusal(at.get("threshold") or at, "threshold is not a burn rate above 0")
    if string_of(at.get("op")) in _BELOW:
        draft.fixed(
            f"op {string_of(at.get('op'))} would alert while the burn is low: it is read as gte, "
            "as OpenSLO's own examples mean it",
            at.get("op"),
        )
    long = _span(draft, at, "lookbackWindow")
    if long is None:
        raise Refusal(at, "lookbackWindow is missing")
    stated_after = _span(draft, at, "alertAfter")
    short = short_window(long, stated_after)
    if short != stated_after:
        draft.fixed("alertAfter is no shorter window: a twelfth of the lookback is taken", at)
    draft.lose_rest(spec, "severity", "condition")
    draft.lose_rest(at, "kind", "op", "threshold", "lookbackWindow", "alertAfter")
    severity = string_of(spec.get("severity")).lower()
    name = name_of(string_of(metadata.get("name")) if metadata else "") or "alert"
    paging = severity in _PAGING
    if severity not in {"page", "ticket"}:
        draft.kept(f"severity {severity or 'unstated'} is {'page' if paging else 'ticket'}", found)
    tier = Tier(name, "page" if paging else "ticket", factor, long, short)
    return StatedTier(tier, found, is_half="multi" in kind.lower())


def _paired(draft: Draft, stated: Sequence[StatedTier]) -> list[StatedTier]:
    """Make one tier of two conditions that must hold together: a long window and a short one.

    Some write a multi-window alert as two conditions of the same factor and severity.
    """
    paired: list[StatedTier] = []
    for each in stated:
        halves = [
            other for other in stated
            if other.is_half and each.is_half
            and (other.tier.factor, other.tier.severity) == (each.tier.factor, each.tier.severity)
        ]  # fmt: skip
        if len(halves) != 2:
            paired.append(each)
            continue
        short, long = sorted(halves, key=lambda half: half.tier.long)
        if each is long and short.tier.long < long.tier.long:
            draft.fixed(
                f"{short.tier.name!r} and {long.tier.name!r} are the two windows of one tier",
                long.at,
            )
            paired.append(replace(long, tier=replace(long.tier, short=short.tier.long)))
        elif short.tier.long == long.tier.long:
            paired.append(each)
    return paired


def _follow(item: Located, kind: str, key: str, objects: Objects) -> Located:
    if isinstance(item.data, str):
        found = objects.refer(kind, item)
        check_object(found)
        return found
    if not isinstance(item.data, dict):
        raise Refusal(item, f"{kind} is written inline or by {key}")
    reference = item.get(key) or item.get(f"{kind[0].lower()}{kind[1:]}Ref")
    if reference is not None:
        found = objects.refer(kind, reference)
        check_object(found)
        return found
    return item


def _span(draft: Draft, at: Located, key: str) -> timedelta | None:
    found = at.get(key)
    if found is None:
        return None
    text = string_of(found)
    if text.startswith("-"):
        draft.fixed(f"{key} {text} looks back {text[1:]}", found)
    try:
        return parse_duration(text.removeprefix("-"))
    except BadInput as error:
        raise Refusal(found, f"{key}: {error}") from error
