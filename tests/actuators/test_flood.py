"""The whole loop against the fake world: a flood, an ineffective lever, alternating load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from rig import Rig, make_settings

from actuators.lease import Kind, LeaseState
from actuators.loop import ScopeReport
from base import db as control_db
from base.durations import format_instant


def test_a_flood_is_shed_and_scaled_proven_and_undone(rig: Rig) -> None:
    rig.run(30)
    rig.world.rates["acme"] = 40.0
    rig.run(60)

    kinds = {x.kind: x for x in rig.open()}
    assert set(kinds) == {Kind.SHED, Kind.SCALE}
    assert kinds[Kind.SHED].subject == "tenant=acme"
    assert kinds[Kind.SHED].cause == "tenant_flood:acme"
    assert {x.state for x in kinds.values()} == {LeaseState.VERIFIED}
    assert rig.world.seconds[-1].wait_ms < 1000

    rig.world.rates["acme"] = 4.0
    rig.run(300)

    assert rig.open() == []
    assert {x.state for x in rig.leases()} == {LeaseState.REVERTED}
    assert list(rig.world.rules()) == []
    assert rig.world.desired == 2


def test_traffic_is_given_back_before_capacity_and_slower_than_taken(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0
    rig.run(90)
    rig.world.rates["acme"] = 4.0
    rig.run(300)

    shed = next(x for x in rig.leases() if x.kind is Kind.SHED)
    scale = next(x for x in rig.leases() if x.kind is Kind.SCALE)
    eased = [h.at for h in scale.history if h.step in {"eased", "revert_started"}]
    assert shed.closed_at is not None
    assert eased[0] > shed.closed_at
    gaps = [(b - a).total_seconds() for a, b in pairwise(eased)]
    assert gaps
    assert min(gaps) >= 15


def test_no_other_tenant_is_ever_shed_and_the_ceiling_holds(rig: Rig) -> None:
    rig.world.rates["acme"] = 400.0
    for _ in range(40):
        rig.run(5)
        for rule in rig.world.rules():
            assert rule["match"]["tenant"] == "acme"
            assert rule["fraction"] is None or rule["fraction"] <= 0.9


def test_a_shed_that_does_not_help_is_reverted_and_the_next_rung_is_tried(rig: Rig) -> None:
    rig.world.shed_works = False
    rig.world.max = 2
    rig.world.rates["acme"] = 40.0
    rig.run(120)

    gateway = [x for x in rig.leases() if x.target == "gateway/demo"]
    first, second = gateway[:2]
    assert (first.kind, first.state) == (Kind.SHED, LeaseState.FAILED)
    assert second.kind is Kind.CAP
    assert first.closed_at is not None
    assert second.created_at >= first.closed_at
    waited = (first.closed_at - first.changed_at).total_seconds()
    assert waited <= rig.settings.verify_within.total_seconds() + 5

    rig.run(120)
    again = [x for x in rig.leases() if x.kind is Kind.SHED]
    assert again == [first], "a cold lever is left alone for this cause"


def test_a_gateway_that_never_takes_the_policy_fails_the_lease(rig: Rig) -> None:
    rig.world.gateway_down = True
    rig.world.max = 2
    rig.world.rates["acme"] = 40.0
    rig.run(90)

    shed = next(x for x in rig.leases() if x.kind is Kind.SHED)
    assert shed.state is LeaseState.FAILED
    assert "never confirmed" in shed.history[-2].note


def test_scale_out_that_is_used_up_is_kept_and_counts_as_not_enough(rig: Rig) -> None:
    rig.world.max = 3
    rig.world.shed_works = False
    rig.world.rates = dict.fromkeys(rig.world.rates, 40.0)  # everybody: no flood to shed
    rig.run(120)

    scale = next(x for x in rig.leases() if x.kind is Kind.SCALE)
    assert scale.is_open
    assert rig.world.desired == 3
    assert "not_enough" in {h.step for h in scale.history}


def test_our_own_sheds_do_not_keep_the_shed_alive(rig: Rig) -> None:
    rig.world.sheds_are_bad = True
    rig.world.rates["acme"] = 40.0
    rig.run(120)
    assert rig.world.verdicts()[0].tiers[0].burning, "the page goes on: refused people are unhappy"

    rig.run(120)

    shed = next(x for x in rig.leases() if x.kind is Kind.SHED)
    assert "eased" in {h.step for h in shed.history}


@pytest.mark.slow
def test_alternating_load_does_not_make_the_fleet_swing(rig_of: Callable[..., Rig]) -> None:
    rig = rig_of(remember_peak="5m")
    for _ in range(15):
        rig.world.rates["acme"] = 40.0
        rig.run(60)
        rig.world.rates["acme"] = 4.0
        rig.run(60)

    seen = rig.world.puts
    moves = [b - a for a, b in zip([2, *seen], seen, strict=False) if b != a]
    turns = sum(1 for a, b in pairwise(moves) if (a > 0) != (b > 0))
    assert turns <= 6, f"{turns} turns in half an hour: {seen}"


def test_a_flat_load_is_never_acted_on(rig: Rig) -> None:
    rig.run(600)

    assert rig.leases() == []
    assert rig.world.puts == []


def test_the_same_evidence_gives_the_same_decisions_in_a_dry_run(rig: Rig) -> None:
    register = control_db.open_engine("sqlite:///:memory:")
    control_db.metadata.create_all(register)
    dry = Rig(rig.world, register, rig.clock, make_settings(dry_run=True))
    rig.new_loop()  # the live gateway is the one that is asked
    rig.world.rates["acme"] = 40.0

    for second in range(0, 360, 5):
        if second == 120:
            rig.world.rates["acme"] = 4.0
        rig.world.run(5)
        verdicts, now = rig.world.verdicts(), rig.clock.now()
        # Dry first: it must see the world before the live one changes it.
        would = steps_of(dry.loop.tick(verdicts, now))
        does = steps_of(rig.loop.tick(verdicts, now))
        assert would == does, format_instant(now)

    steps = {h.step for x in dry.leases() for h in x.history}
    assert steps
    assert all(s.startswith("would_") for s in steps)


def steps_of(reports: Sequence[ScopeReport]) -> list[tuple[str, str, str, dict[str, object]]]:
    return [(p.step, p.key, p.reason, dict(p.change)) for r in reports for p in r.done]
