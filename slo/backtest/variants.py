"""What if: the same history under other targets and other tiers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slo.model import Slo
from slo.slices import MIN_BAD as MIN_BAD_SLICES
from slo.tiers import MIN_BAD, Tier, can_fire, classic, derive

DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class TierSet:
    """Named tiers: those of the document, derived ones, the classic ones, or `tiers` as given."""

    name: str
    tiers: tuple[Tier, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """An SLO as it would be; tiers that could never fire there are named, and do not."""

    slo: Slo
    tiers: str
    unfireable: tuple[str, ...]


def variants(slo: Slo, targets: Sequence[float], sets: Sequence[TierSet]) -> list[Variant]:
    """List every target with every set of tiers, the document's own first.

    Targets are fractions. A document that leaves its tiers to be derived has them derived anew.
    """
    objectives = [slo.objective, *(each for each in targets if each != slo.objective)]
    return [
        variant(slo, objective, tiers)
        for objective in objectives
        for tiers in (TierSet(DOCUMENT), *sets)
    ]


def variant(slo: Slo, objective: float, tiers: TierSet) -> Variant:
    """Change the objective of an SLO, and its tiers; an override's own objective stays."""
    own, *others = slo.variants
    kept, dead = _fit(own, objective, tiers)
    overrides = []
    for override, other in zip(slo.overrides, others, strict=True):
        goal = override.objective if override.states_objective else objective
        theirs, lost = _fit(other, goal, tiers)
        overrides.append(replace(override, objective=goal, tiers=theirs))
        dead += [f"{name} ({override})" for name in lost]
    changed = replace(slo, objective=objective, tiers=kept, overrides=tuple(overrides))
    return Variant(changed, tiers.name, tuple(dead))


def _fit(slo: Slo, objective: float, tiers: TierSet) -> tuple[tuple[Tier, ...], list[str]]:
    """Choose tiers; returns those that can fire, and the names of the others."""
    chosen = _tiers(slo, objective, tiers)
    kept = tuple(tier for tier in chosen if can_fire(tier.factor, objective))
    return kept, [tier.name for tier in chosen if not can_fire(tier.factor, objective)]


def _tiers(slo: Slo, objective: float, tiers: TierSet) -> tuple[Tier, ...]:
    match tiers.name:
        case "derived":
            return _derived(slo, objective)
        case "classic":
            length = slo.slices.length if slo.slices is not None else None
            return classic(slo.window, _min_bad(slo), length)
        case "document" if slo.tiers != _derived(slo, slo.objective):
            return slo.tiers
        case "document":
            return _derived(slo, objective)
        case _:
            return tuple(tier for tier in tiers.tiers if tier.long <= slo.window)


def _derived(slo: Slo, objective: float) -> tuple[Tier, ...]:
    length = slo.slices.length if slo.slices is not None else None
    return derive(objective, slo.window, _min_bad(slo), length)


def _min_bad(slo: Slo) -> int:
    if slo.tiers:
        return slo.tiers[0].min_bad
    return MIN_BAD if slo.slices is None else MIN_BAD_SLICES
