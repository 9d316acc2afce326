"""People always win: kill switch, holds, single reverts, changes made by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from rig import Rig

from actuators import ledger, read
from actuators.lease import Kind, LeaseState
from actuators.overrules import Hold, KillSwitch, lift_hold, place_hold, set_kill_switch
from base.db import transaction
from base.errors import BadInput, Retryable


def flooded(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0
    rig.run(60)
    assert rig.open()


def turn(rig: Rig, *, on: bool) -> None:
    with transaction(rig.db) as connection:
        set_kill_switch(connection, KillSwitch(on, "ana", "I take over", rig.clock.now()))


def test_the_kill_switch_takes_everything_back_and_blocks_what_is_new(rig: Rig) -> None:
    flooded(rig)
    turn(rig, on=True)
    rig.run(60)

    assert rig.open() == []
    assert {x.state for x in rig.leases()} == {LeaseState.REVERTED}
    assert list(rig.world.rules()) == []
    assert rig.world.desired == 2
    assert {r.rule for r in rig.loop.reports["demo"].refused} == {"kill_switch"}
    with pytest.raises(Retryable, match="kill switch"):
        rig.drivers.signals.read("chat", rig.clock.now())


def test_turned_off_again_the_loop_acts_again(rig: Rig) -> None:
    turn(rig, on=True)
    rig.world.rates["acme"] = 40.0
    rig.run(30)
    assert rig.leases() == []
    turn(rig, on=False)
    rig.run(30)

    assert rig.open()


def test_a_deaf_fleet_is_asked_again_until_it_has_taken_the_revert(rig: Rig) -> None:
    flooded(rig)
    rig.world.fleet_down = True
    turn(rig, on=True)
    rig.run(20)
    pending = rig.open()
    rig.world.fleet_down = False
    rig.run(10)

    assert [(x.kind, x.pending) for x in pending] == [(Kind.SCALE, "revert")]
    assert rig.open() == []
    assert rig.world.desired == 2


def test_a_held_target_is_left_alone_until_the_hold_runs_out(rig: Rig) -> None:
    now = rig.clock.now()
    hold = Hold("gateway/demo", "ana", "load test", now, now + timedelta(seconds=60))
    with transaction(rig.db) as connection:
        place_hold(connection, hold)
    rig.world.rates["acme"] = 40.0
    rig.world.max = 2
    rig.run(55)
    during = rig.leases()
    refused = {r.rule for r in rig.loop.reports["demo"].refused}
    rig.run(20)

    assert during == []
    assert "hold" in refused
    assert [x.target for x in rig.open()] == ["gateway/demo"]


def test_a_hold_can_be_lifted_early(rig: Rig) -> None:
    now = rig.clock.now()
    with transaction(rig.db) as connection:
        place_hold(connection, Hold("fleet/chat", "ana", "x", now, now + timedelta(hours=1)))
        assert lift_hold(connection, "fleet/chat", "ana", now)
        assert not lift_hold(connection, "fleet/chat", "ana", now)

    assert read.overrules(rig.db, now)[1] == ()


def test_a_manual_change_ends_the_lease_and_the_loop_keeps_its_hands_off(rig: Rig) -> None:
    flooded(rig)
    rig.world.set_desired(5, by="ana")
    rig.run(60)

    scale = next(x for x in rig.leases() if x.kind is Kind.SCALE)
    assert scale.state is LeaseState.REVERTED
    assert scale.history[-1].actor == "ana"
    assert rig.world.desired == 5
    _, holds = read.overrules(rig.db, rig.clock.now())
    assert [(h.target, h.by) for h in holds] == [("fleet/chat", "ana")]


def test_one_lease_can_be_taken_back_by_name(rig: Rig) -> None:
    flooded(rig)
    shed = next(x for x in rig.open() if x.kind is Kind.SHED)
    reverted = rig.loop.revert(shed.id, "ana", "their launch day", rig.clock.now())

    assert reverted.state is LeaseState.REVERTED
    assert any(h.actor == "ana" and h.note == "their launch day" for h in reverted.history)
    with pytest.raises(BadInput, match="not open"):
        rig.loop.revert(shed.id, "ana", "again", rig.clock.now())


def test_a_protected_tenant_is_never_refused(rig_of: Callable[..., Rig]) -> None:
    rig = rig_of(limits={"cooldown": "10s", "protected_tenants": ["acme"]})
    rig.world.rates["acme"] = 40.0
    rig.run(60)

    assert {x.kind for x in rig.leases()} == {Kind.SCALE}
    assert "protected" in {r.rule for r in rig.loop.reports["demo"].refused}


def test_every_step_is_in_an_unbroken_chain(rig: Rig) -> None:
    flooded(rig)
    rig.world.rates["acme"] = 4.0
    rig.run(200)
    lease = rig.leases()[0]
    with transaction(rig.db) as connection:
        broken = ledger.first_break(connection)
    steps = [row.step for row in read.trail(rig.db, lease.id)]

    assert broken is None
    assert steps == [h.step for h in lease.history]


def test_an_altered_audit_row_is_found(rig: Rig) -> None:
    flooded(rig)
    with transaction(rig.db) as connection:
        connection.exec_driver_sql("UPDATE actuator_audit SET actor = 'nobody' WHERE seq = 2")
        assert ledger.first_break(connection) == 2
