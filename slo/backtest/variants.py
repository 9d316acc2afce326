"""What if: the same history under other targets and other tiers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slo.model import Slo
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
            return derive(objective, slo.window, _min_bad(slo))
        case "classic":
            return classic(slo.window, _min_bad(slo))
        case "document" if slo.tiers != derive(slo.objective, slo.window, _min_bad(slo)):
            return slo.tiers
        case "document":
            return derive(objective, slo.window, _min_bad(slo))
        case _:
            return tuple(tier for tier in tiers.tiers if tier.long <= slo.window)


def _min_bad(slo: Slo) -> int:
    return slo.tiers[0].min_bad if slo.tiers else MIN_BAD
