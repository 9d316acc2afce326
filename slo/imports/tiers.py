"""Alerts as others state them -> tiers that can fire at the objective. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from base.durations import format_duration
from slo.imports.outcome import NoteKind
from slo.located import Located
from slo.tiers import Tier, can_fire, max_burn

REACH = 0.5  # of the way from burn 1 to a total outage: what the derived tier `fast` takes


@dataclass(frozen=True, slots=True)
class StatedTier:
    """`is_half`: one of two windows of a tier, written as a condition of its own."""

    tier: Tier
    at: Located
    is_half: bool = False


def fit_tiers(
    stated: Sequence[StatedTier], objective: float, window: timedelta
) -> tuple[list[Tier], list[tuple[Located, NoteKind, str]]]:
    """Change what could never fire or would alert within budget; drop what does not fit."""
    fitted: list[Tier] = []
    notes: list[tuple[Located, NoteKind, str]] = []
    for each in stated:
        tier = each.tier
        if tier.long > window:
            text = (
                f"alert {tier.name!r} looks back {format_duration(tier.long)}, longer than the "
                f"budget window {format_duration(window)}"
            )
            notes.append((each.at, "lost", text))
            continue
        if not can_fire(tier.factor, objective):
            reachable = round(1 + REACH * (max_burn(objective) - 1), 6)
            text = (
                f"alert {tier.name!r} could never fire: a total outage burns at "
                f"{max_burn(objective):.4g}, its factor was {tier.factor:g} and is {reachable:g}"
            )
            notes.append((each.at, "fixed", text))
            tier = replace(tier, factor=reachable)
        elif tier.factor < 1:
            text = (
                f"alert {tier.name!r} had factor {tier.factor:g}, which alerts while the "
                "objective is met: 1 is taken"
            )
            notes.append((each.at, "fixed", text))
            tier = replace(tier, factor=1.0)
        fitted.append(replace(tier, name=_free(tier.name, fitted)))
    return fitted, notes


def short_window(long: timedelta, stated: timedelta | None) -> timedelta:
    """Take a stated short window if it is one, else a twelfth of the long one, in ten seconds."""
    if stated is not None and timedelta(0) < stated < long:
        return stated
    step = timedelta(seconds=10)
    return min(max(step, long // 12 // step * step), long / 2)


def _free(name: str, taken: Sequence[Tier]) -> str:
    names = {tier.name for tier in taken}
    number, free = 2, name
    while free in names:
        free, number = f"{name}-{number}", number + 1
    return free
