"""An SLO with overrides -> one without for each objective, for formats that know only those. Pure.

Each asks only about the groups that it holds for, so together they judge what the one judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from base.durations import format_duration
from base.errors import BadInput
from slo.columns import COLUMNS
from slo.export.selection import Selection, selections
from slo.expression import AnyOf, Column, Expression, Not, OneOf, Unknown, Value
from slo.expression_text import write
from slo.model import Slo
from slo.overrides import Override
from slo.prometheus.selector import parse_selector
from slo.prometheus.sli import Queries
from slo.tiers import Tier

LONGEST_NAME = 64

_SELECTORS = ("total", "bad", "good", "gauge", "histogram", "native_histogram")


def apart(slo: Slo, document: Mapping[str, Any]) -> list[tuple[Slo, dict[str, Any]]]:
    """Part an SLO and its native document; BadInput where its events cannot be told apart."""
    plain = {key: value for key, value in document.items() if key != "overrides"}
    if not slo.overrides:
        return [(slo, plain)]
    if why := why_not_apart(slo):
        raise BadInput(f"slo {slo.name!r} {why}")
    parts = []
    for number, (own, chosen) in enumerate(zip(slo.variants, selections(slo), strict=True)):
        said = plain | {"name": _name(slo.name, number)}
        if number:
            said |= {
                "objective": round(own.objective * 100, 10),
                "tiers": [_tier(tier) for tier in own.tiers],
                "labels": dict(own.labels),
                "annotations": dict(own.annotations),
            }
        if slo.prometheus is None:
            said["eligible"] = _eligible(slo, number, document.get("eligible"))
        else:
            said["prometheus"] = _selected(document["prometheus"], chosen)
        parts.append((replace(own, name=said["name"]), said))
    return parts


def why_not_apart(slo: Slo) -> str:
    """Say why an SLO with overrides cannot be parted; '' where it can, or has none."""
    if not slo.overrides or slo.prometheus is None:
        return ""
    if isinstance(slo.prometheus.events, Queries):
        why = "queries cannot be narrowed to some of the groups"
    elif any(chosen.without for chosen in selections(slo)):
        why = "selectors cannot leave out what matches several members at once"
    else:
        return ""
    return (
        f"has overrides, and this format has one objective for all groups; {why}: write an "
        "SLO for each objective"
    )


def _name(name: str, number: int) -> str:
    if not number:
        return name
    ending = f"-override-{number}"
    return name[: LONGEST_NAME - len(ending)].rstrip("-") + ending


def _eligible(slo: Slo, number: int, stated: Any) -> str:
    """Narrow `eligible` to the groups of an override, 0: of none; the first that matches holds."""
    before = slo.overrides[: number - 1] if number else slo.overrides
    asked = [] if stated is None else [f"({stated})"]
    if number:
        asked += [f"({write(_is_one_of(*each))})" for each in slo.overrides[number - 1].match]
    asked += [f"({write(_is_none_of(each))})" for each in before]
    return " and ".join(asked)


def _is_one_of(name: str, values: Sequence[str]) -> Expression:
    """Ask for members of a group; an empty one is of requests that do not say it."""
    known = tuple(Value(value) for value in values if value)
    column = Column(COLUMNS[name])
    ways: list[Expression] = [Unknown(column)] if "" in values else []
    ways += [OneOf(column, known)] if known else []
    return ways[0] if len(ways) == 1 else AnyOf(tuple(ways))


def _is_none_of(override: Override) -> Expression:
    """Ask for requests that an override does not match."""
    ways: list[Expression] = []
    for name, values in override.match:
        column = Column(COLUMNS[name])
        known = tuple(Value(value) for value in values if value)
        if "" not in values:
            ways.append(Unknown(column))
        # Of a request that does not say it this is unknown, which is not eligible.
        ways.append(Not(OneOf(column, known)) if known else Not(Unknown(column)))
    return ways[0] if len(ways) == 1 else AnyOf(tuple(ways))


def _selected(section: Mapping[str, Any], chosen: Selection) -> dict[str, Any]:
    narrowed = {}
    for key in _SELECTORS:
        text = section.get(key)
        if text is None:
            continue
        selector = parse_selector(text)
        narrowed[key] = str(selector.of(selector.metric, *chosen.wanted))
    return {**section, **narrowed}


def _tier(tier: Tier) -> dict[str, Any]:
    return {
        "name": tier.name,
        "severity": tier.severity,
        "factor": tier.factor,
        "long": format_duration(tier.long),
        "short": format_duration(tier.short),
        "min_bad": tier.min_bad,
        "hold": format_duration(tier.hold),
    }
