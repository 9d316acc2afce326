"""What changing SLO documents would change now: budgets, indicators, alerts. Pure.

Old and new documents are judged over the same requests as of the same instant, so every difference
is the documents' doing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from slo.backtest.cells import Evaluations, Group
from slo.backtest.heard import Silence
from slo.backtest.history import History
from slo.backtest.sweep import sweep
from slo.budget import Count, budget_remaining, sli
from slo.described import changes, describe
from slo.model import Slo
from slo.settings import SloSettings
from slo.spending.model import CostSlo
from slo.verdict import Severity
from slo.weight import REQUESTS

_SAME = 1e-9  # budgets this near are one budget: only rounding tells them apart
_RANK: Mapping[Severity | None, int] = {None: 0, "ticket": 1, "page": 2}


class Kind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    SAME = "same"


class Effect(StrEnum):
    """What happens to a group. The first four are for the worse."""

    FIRES = "alert fires"
    EXHAUSTS = "budget exhausted"
    SPENDS = "budget spent"
    RAISES = "alert gets louder"
    RESOLVES = "alert resolves"
    LOWERS = "alert gets quieter"
    RETURNS = "budget returned"
    APPEARS = "new"
    GOES = "gone"


WORSE = frozenset({Effect.FIRES, Effect.EXHAUSTS, Effect.SPENDS, Effect.RAISES})


@dataclass(frozen=True, slots=True)
class Standing:
    """How a group stands under one document; `burning` names the tiers that burn now."""

    count: Count
    excluded: int
    sli: float | None
    budget_remaining: float | None
    burning: tuple[str, ...] = ()
    severity: Severity | None = None
    unit: str = REQUESTS


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group before and after; None where the document has no such group."""

    group: Mapping[str, str]
    before: Standing | None
    after: Standing | None
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class SloPlan:
    """One SLO: what the document changes, and what that changes.

    `unjudged` says why it is not held against requests, of something that they do not show.
    """

    name: str
    kind: Kind
    lines: tuple[str, ...]
    groups: tuple[GroupPlan, ...]
    unjudged: str = ""

    @property
    def is_worse(self) -> bool:
        return any(effect in WORSE for group in self.groups for effect in group.effects)


def judged_as(slos: Sequence[Slo | CostSlo]) -> list[Slo]:
    """Name SLOs by what they count, once each: what both documents count is counted once."""
    return [
        replace(slo, name=name)
        for name, slo in {
            slo.definition: slo for slo in slos if isinstance(slo, Slo) and slo.prometheus is None
        }.items()
    ]


def plan(
    before: Sequence[Slo | CostSlo],
    after: Sequence[Slo | CostSlo],
    history: History,
    settings: SloSettings,
) -> list[SloPlan]:
    """Compare documents as of the last evaluation of a history of `judged_as` SLOs."""
    last = history.span.end - 1
    now = replace(history, span=Evaluations(last, last + 1))
    old, new = ({slo.name: slo for slo in slos} for slos in (before, after))
    return [
        _compare(name, old.get(name), new.get(name), now, settings)
        for name in [*new, *(name for name in old if name not in new)]
    ]


def _compare(
    name: str,
    old: Slo | CostSlo | None,
    new: Slo | CostSlo | None,
    now: History,
    settings: SloSettings,
) -> SloPlan:
    lines = changes({} if old is None else describe(old), {} if new is None else describe(new))
    kind = (
        Kind.ADDED if old is None
        else Kind.REMOVED if new is None
        else Kind.CHANGED if lines
        else Kind.SAME
    )  # fmt: skip
    before, after = _standings(old, now, settings), _standings(new, now, settings)
    groups = tuple(
        GroupPlan(
            dict(members),
            before.get(members),
            after.get(members),
            effects(before.get(members), after.get(members)),
        )
        for members in sorted({**before, **after})
    )
    unjudged = next(
        (why for slo in (old, new) if slo is not None and (why := unjudged_of(slo))), ""
    )
    return SloPlan(name, kind, tuple(lines), groups, unjudged)


def unjudged_of(slo: Slo | CostSlo) -> str:
    """Say why an SLO cannot be held against a history of requests; '' where it can."""
    if isinstance(slo, CostSlo):
        return "it is about cost, and GPU-hours are not in a history of requests"
    return "" if slo.prometheus is None else "its events come from Prometheus"


Members = tuple[tuple[str, str], ...]


def _standings(
    slo: Slo | CostSlo | None, now: History, settings: SloSettings
) -> dict[Members, Standing]:
    if slo is None or isinstance(slo, CostSlo) or slo.prometheus is not None:
        return {}
    counted = replace(slo, name=slo.definition)
    found: dict[Members, Standing] = {}
    groups = now.groups(counted)
    for own, places in counted.by_variant(groups):
        silence = now.silence(own, settings)
        for group in (groups[place] for place in places):
            standing = _standing(own, group, now, silence)
            if standing is not None:
                found[tuple(zip(slo.group_by, group, strict=False))] = standing
    return found


def _standing(slo: Slo, group: Group, now: History, silence: Silence) -> Standing | None:
    cells = now.of(slo, group)
    count, excluded = now.count(slo, group, slo.window, now.span.first)
    if cells is None or not (count.total or excluded):
        return None
    (change,) = sweep(slo, cells, now.grid, now.span, silence)
    burning = [tier for tier, burns in zip(slo.tiers, change.sight.burning, strict=True) if burns]
    severity = max((tier.severity for tier in burning), key=_RANK.__getitem__, default=None)
    return Standing(
        count,
        excluded,
        sli(count),
        budget_remaining(count, slo.objective),
        tuple(tier.name for tier in burning),
        severity,
        slo.unit,
    )


def effects(before: Standing | None, after: Standing | None) -> tuple[Effect, ...]:
    """Name what happens to a group."""
    out: list[Effect] = []
    was, now = (each.severity if each else None for each in (before, after))
    if _RANK[now] > _RANK[was]:
        out.append(Effect.FIRES if was is None else Effect.RAISES)
    elif _RANK[now] < _RANK[was]:
        out.append(Effect.RESOLVES if now is None else Effect.LOWERS)
    had, has = (each.budget_remaining if each else None for each in (before, after))
    if has is not None and has <= 0 and (had is None or had > 0):
        out.append(Effect.EXHAUSTS)
    elif had is not None and has is not None and has < had - _SAME:
        out.append(Effect.SPENDS)
    elif had is not None and has is not None and has > had + _SAME:
        out.append(Effect.RETURNS)
    if before is None and after is not None:
        out.append(Effect.APPEARS)
    if after is None and before is not None:
        out.append(Effect.GOES)
    return tuple(out)
