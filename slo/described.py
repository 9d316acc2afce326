"""What an SLO says, as lines that can be compared. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from base.durations import format_duration
from slo.composite import Composite, Kind
from slo.expression_text import write
from slo.model import Slo
from slo.overrides import Override
from slo.spending.model import CostSlo, Idle, usd
from slo.tiers import Tier
from slo.weight import Weight


def describe(slo: Slo | CostSlo) -> dict[str, str]:
    """Write every field that a document sets or derives, by its path: `good.first token`."""
    if isinstance(slo, CostSlo):
        return _describe_cost(slo)
    said = {
        "objective": f"{slo.objective * 100:.10g}",
        "window": format_duration(slo.window),
        "slices": "" if slo.slices is None else str(slo.slices),
        "group_by": ", ".join(slo.group_by),
        "calendar": ", ".join(f"{each.period} in {each.zone}" for each in slo.calendars),
        "eligible": "" if slo.eligible is None or slo.composite else write(slo.eligible),
        "description": slo.description,
    }
    if slo.weight is not None:
        said["weight"] = _weight(slo.weight)
    if slo.composite is not None:
        said |= _composite(slo.composite)
    elif slo.prometheus is None:
        said |= {f"good.{clause.name}": write(clause.expression) for clause in slo.good}
    else:
        said |= _flat("prometheus", slo.prometheus.counted())
    said |= {f"tiers.{tier.name}": _tier(tier) for tier in slo.tiers}
    said |= {f"labels.{name}": value for name, value in slo.labels.items()}
    said |= {f"annotations.{name}": value for name, value in slo.annotations.items()}
    said["overrides"] = "; ".join(map(str, slo.overrides))  # their order counts
    for override in slo.overrides:
        said |= _override(override)
    return {path: text for path, text in said.items() if text}


def _describe_cost(slo: CostSlo) -> dict[str, str]:
    said = {
        "cost.at_most_usd": f"{usd(slo.at_most):.15g}",
        "cost.per": slo.per.value,
        "cost.idle": "" if slo.idle is Idle.APART else slo.idle.value,
        "cost.min_overspend_usd": f"{usd(slo.min_overspend):.15g}",
        "window": format_duration(slo.window),
        "group_by": ", ".join(slo.group_by),
        "calendar": ", ".join(f"{each.period} in {each.zone}" for each in slo.calendars),
        "eligible": "" if slo.eligible is None else write(slo.eligible),
        "description": slo.description,
    }
    said |= {f"good.{clause.name}": write(clause.expression) for clause in slo.good}
    said |= _cost_tiers(slo.tiers)
    said |= {f"labels.{name}": value for name, value in slo.labels.items()}
    said |= {f"annotations.{name}": value for name, value in slo.annotations.items()}
    said["overrides"] = "; ".join(map(str, slo.overrides))  # their order counts
    for override in slo.overrides:
        own = {
            "cost.at_most_usd": f"{usd(override.at_most):.15g}",
            "cost.min_overspend_usd": f"{usd(override.min_overspend):.15g}",
            **_cost_tiers(override.tiers),
            **{f"labels.{name}": value for name, value in override.labels.items()},
            **{f"annotations.{name}": value for name, value in override.annotations.items()},
        }
        said |= {f"overrides[{override}].{path}": text for path, text in own.items()}
    return {path: text for path, text in said.items() if text}


def _cost_tiers(tiers: Sequence[Tier]) -> dict[str, str]:
    return {f"tiers.{tier.name}": _tier(tier).rpartition(",")[0] for tier in tiers}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """List what differs, a line each: `objective: 95 -> 99`."""
    out = []
    for path in [*before, *(path for path in after if path not in before)]:
        was, now = before.get(path), after.get(path)
        if was == now:
            continue
        if was is None:
            out.append(f"{path}: added: {now}")
        elif now is None:
            out.append(f"{path}: removed: {was}")
        else:
            out.append(f"{path}: {was} -> {now}")
    return out


def _override(override: Override) -> dict[str, str]:
    said = {"objective": f"{override.objective * 100:.10g}"}
    said |= {f"tiers.{tier.name}": _tier(tier) for tier in override.tiers}
    said |= {f"labels.{name}": value for name, value in override.labels.items()}
    said |= {f"annotations.{name}": value for name, value in override.annotations.items()}
    return {f"overrides[{override}].{path}": text for path, text in said.items()}


def _tier(tier: Tier) -> str:
    return (
        f"{tier.severity} at {tier.factor:.6g} over {format_duration(tier.long)} and "
        f"{format_duration(tier.short)}, {tier.min_bad} bad"
    )


def _weight(weight: Weight) -> str:
    return f"{write(weight.by)} in {weight.unit.name}"


def _composite(composite: Composite) -> dict[str, str]:
    """Say what each component asks too: it may change while its name stays."""
    said: dict[str, str] = {}
    for part in composite.parts:
        path = f"composite.{composite.kind}.{part.name}"
        said[path] = f"weight {part.factor}" if composite.kind is Kind.SUM else "asked"
        said[f"{path}.eligible"] = "" if part.eligible is None else write(part.eligible)
        said |= {f"{path}.good.{each.name}": write(each.expression) for each in part.good}
        said[f"{path}.weight"] = "" if part.weight is None else _weight(part.weight)
    return said


def _flat(path: str, value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        out: dict[str, str] = {}
        for key, inner in value.items():
            out |= _flat(f"{path}.{key}", inner)
        return out
    return {path: "" if value is None else str(value)}
