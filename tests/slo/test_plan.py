"""What a plan says of a change: budgets, alerts, and whether it is for the worse."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from slo.backtest.cells import BAD, EXCLUDED, GOOD, Gathered
from slo.backtest.history import History, grid_for, make_history
from slo.budget import Count
from slo.model import Slo
from slo.overrides import Override
from slo.parse import parse_clauses
from slo.plan import Effect, Kind, SloPlan, Standing, effects, judged_as, plan
from slo.settings import SloSettings
from slo.slices import make_slices
from slo.tiers import Tier, derive

HOUR = timedelta(hours=1)
BEGIN = 1_000_000


def slo(name: str = "chat", objective: float = 0.9, good: str = "outcome = 'good'") -> Slo:
    return Slo(
        name, objective, HOUR, parse_clauses(good), derive(objective, HOUR), group_by=("tenant",)
    )


def history(*slos: Slo, failing: float = 0.05) -> History:
    """An hour of one request a second of acme, of which the last of each hundred fail."""
    found = Gathered()
    found.expect(judged_as(slos))
    seconds = np.arange(3600)
    kinds = np.where(seconds % 100 >= 100 - 100 * failing, BAD, GOOD)
    kinds[:5] = EXCLUDED
    at = (BEGIN + seconds) * 1_000_000_000
    for each in judged_as(slos):
        found.add((each.name, ("acme",)), at, kinds.astype(np.uint8))
    made = make_history(found, grid_for(slos, timedelta(seconds=10)))
    assert made is not None
    return made


def planned(before: list[Slo], after: list[Slo], failing: float = 0.05) -> list[SloPlan]:
    return plan(before, after, history(*before, *after, failing=failing), SloSettings())


def test_slices_are_planned_as_slices() -> None:
    sliced = replace(slo(), slices=make_slices(timedelta(minutes=1), 96))

    (found,) = planned([slo()], [sliced])

    assert found.lines[0] == "slices: added: 1m at 96 %"
    assert found.groups[0].before is not None
    assert found.groups[0].after is not None
    assert found.groups[0].before.count.total == 3595
    # Five requests of a hundred fail in a row: at most one such run lies in a minute.
    assert found.groups[0].after.count.total == 60
    assert found.groups[0].after.count.bad == 35


def test_the_same_documents_change_nothing() -> None:
    (found,) = planned([slo()], [slo()])

    assert (found.kind, found.lines, found.is_worse) == (Kind.SAME, (), False)
    (group,) = found.groups
    assert group.before == group.after
    assert group.after is not None
    assert (group.after.count.total, group.after.excluded) == (
        3595,
        4,
    )  # the first began where the window does
    assert group.effects == ()


def test_a_stricter_objective_spends_and_exhausts_budgets_and_fires_alerts() -> None:
    (spent,) = planned([slo()], [slo(objective=0.93)])
    (gone,) = planned([slo()], [slo(objective=0.99)])

    assert spent.groups[0].effects == (Effect.SPENDS,)
    assert gone.groups[0].effects == (Effect.FIRES, Effect.EXHAUSTS)
    assert spent.is_worse
    assert "objective: 90 -> 93" in spent.lines
    after = gone.groups[0].after
    assert after is not None
    assert after.severity == "page"
    assert after.budget_remaining == pytest.approx(1 - (180 / 3595) / 0.01)


def test_a_looser_objective_resolves_and_returns_and_is_not_for_the_worse() -> None:
    (found,) = planned([slo(objective=0.99)], [slo()])

    assert found.groups[0].effects == (Effect.RESOLVES, Effect.RETURNS)
    assert not found.is_worse


def test_an_slo_that_comes_is_for_the_worse_only_if_it_is_exhausted_or_fires() -> None:
    (healthy,) = planned([], [slo()])
    (burnt,) = planned([], [slo(objective=0.99)])

    assert (healthy.kind, healthy.is_worse) == (Kind.ADDED, False)
    assert burnt.is_worse


def test_an_slo_that_goes_is_said() -> None:
    (found,) = planned([slo()], [])

    assert (found.kind, found.is_worse) == (Kind.REMOVED, False)
    assert found.groups[0].effects == (Effect.GOES,)


def test_other_tiers_alone_change_alerts_and_no_budget() -> None:
    loud = replace(slo(), tiers=(Tier("t", "page", 0.8, HOUR, HOUR / 12, 5),))

    (found,) = planned([slo()], [loud], failing=0.09)

    assert found.groups[0].effects == (Effect.FIRES,)
    assert found.groups[0].after is not None
    assert found.groups[0].after.burning == ("t",)


def test_what_both_documents_count_is_counted_once() -> None:
    both = judged_as([slo(), slo(objective=0.99), slo(name="other"), slo(good="ttft_ms < 9")])

    assert len(both) == 2


def standing(remaining: float | None, severity: object = None) -> Standing:
    return Standing(Count(1, 1), 0, 0.5, remaining, (), severity)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (standing(0.5), standing(0.5 - 1e-12), ()),
        (standing(-0.1), standing(-0.2), (Effect.SPENDS,)),
        (standing(0.5, "ticket"), standing(0.5, "page"), (Effect.RAISES,)),
        (standing(0.5, "page"), standing(0.5, "ticket"), (Effect.LOWERS,)),
        (standing(None), standing(None), ()),
        (None, standing(0.5), (Effect.APPEARS,)),
    ],
)
def test_effects_are_named(
    before: Standing | None, after: Standing | None, found: tuple[Effect, ...]
) -> None:
    assert effects(before, after) == found


def test_an_override_is_for_the_groups_that_it_matches() -> None:
    strict = Override((("tenant", ("acme",)),), 0.99, derive(0.99, HOUR))
    elsewhere = replace(strict, match=(("tenant", ("beta",)),))

    (found,) = planned([slo()], [replace(slo(), overrides=(strict,))])
    (other,) = planned([slo()], [replace(slo(), overrides=(elsewhere,))])

    assert found.groups[0].effects == (Effect.FIRES, Effect.EXHAUSTS)
    assert "overrides: added: tenant=acme" in found.lines
    assert "overrides[tenant=acme].objective: added: 99" in found.lines
    assert (other.kind, other.groups[0].effects) == (Kind.CHANGED, ())
