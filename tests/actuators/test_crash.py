"""The control plane may die at any step: what is left is applied under a lease, or safe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rig import Rig, make_settings
from sqlalchemy import Connection, Engine
from world import START, World

import actuators.enact
from actuators import ledger
from actuators.lease import Kind, LeaseState
from base import db as control_db
from base.clock import ManualClock

_FLOOD_S, _AFTER_S = 40, 260


class Crash(BaseException):
    """The process is gone: nothing may catch this."""


class Fuse:
    """Blows at the n-th touch of the database or of the world."""

    def __init__(self, touches: int) -> None:
        self.left = touches

    def touch(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash

    @contextmanager
    def transaction(self, engine: Engine) -> Iterator[Connection]:
        self.touch()  # before the row
        with control_db.transaction(engine) as connection:
            yield connection
        self.touch()  # after it


class Fragile:
    """A driver on the fuse: it may die just before or just after the world has moved."""

    def __init__(self, driver: Any, fuse: Fuse) -> None:
        self._driver, self._fuse = driver, fuse

    def enact(self, lease: Any, change: Mapping[str, Any], now: Any) -> None:
        self._fuse.touch()
        self._driver.enact(lease, change, now)
        self._fuse.touch()

    def in_place(self, lease: Any, now: Any) -> bool | None:
        return self._driver.in_place(lease, now)  # type: ignore[no-any-return]


def make_rig(folder: str) -> Rig:
    clock = ManualClock(START)
    world = World(clock, {"acme": 4.0, "beta": 4.0, "gamma": 4.0})
    world.run(330)
    db = control_db.open_engine(f"sqlite:///{Path(folder)}/control.db")
    control_db.metadata.create_all(db)
    return Rig(world, db, clock, make_settings())


def arm(rig: Rig, fuse: Fuse) -> None:
    enactor = rig.loop._enactor
    enactor._drivers = {name: Fragile(d, fuse) for name, d in enactor._drivers.items()}


def assert_nothing_is_orphaned(rig: Rig) -> None:
    open_ids = {x.id for x in rig.open()}
    for rule in rig.world.rules():
        assert rule["id"] in open_ids, "a rule without a lease"
    scale = [x for x in rig.open() if x.kind is Kind.SCALE]
    if not scale:
        closed = [x for x in rig.leases() if x.kind is Kind.SCALE]
        told = {2} | {int(x.change["desired"]) for x in closed}
        assert rig.world.desired in told


@pytest.mark.slow
@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # a number of touches has nothing to shrink
    suppress_health_check=list(HealthCheck),
)
@given(touches=st.integers(1, 60))
def test_a_crash_at_any_step_ends_applied_or_safe(touches: int) -> None:
    patch = pytest.MonkeyPatch()
    with TemporaryDirectory() as folder:
        rig = make_rig(folder)
        fuse = Fuse(touches)
        patch.setattr(actuators.enact, "transaction", fuse.transaction)
        arm(rig, fuse)
        rig.world.rates["acme"] = 40.0
        for second in range(0, _FLOOD_S + _AFTER_S, 5):
            if second == _FLOOD_S:
                rig.world.rates["acme"] = 4.0
            try:
                rig.run(5)
            except Crash:
                patch.undo()
                rig.world.run(7)  # the process is away for a while
                rig.new_loop()
                rig.tick()
                rig.world.run(1)  # the gateway asks again
                assert_nothing_is_orphaned(rig)
        patch.undo()

        assert rig.open() == []
        assert list(rig.world.rules()) == []
        assert all(x.pending is None for x in rig.leases())
        assert {x.state for x in rig.leases()} <= {
            LeaseState.REVERTED,
            LeaseState.EXPIRED,
            LeaseState.FAILED,
        }
        assert rig.world.desired == 2
        with control_db.transaction(rig.db) as connection:
            assert ledger.first_break(connection) is None
        rig.db.dispose()


def test_a_control_plane_that_never_comes_back_leaves_the_safe_state(tmp_path: Path) -> None:
    rig = make_rig(str(tmp_path))
    rig.world.rates["acme"] = 40.0
    rig.run(60)
    replicas = rig.world.desired
    assert rig.world.rules()
    rig.world.gateway_down = True  # nobody answers its polls
    rig.world.run(90)

    assert rig.world.rules() == []
    assert rig.world.desired == replicas


def test_the_database_itself_refuses_a_second_open_lease_on_a_lever(tmp_path: Path) -> None:
    from dataclasses import replace

    from sqlalchemy.exc import IntegrityError

    from actuators import register

    rig = make_rig(str(tmp_path))
    rig.world.rates["acme"] = 40.0
    rig.run(30)
    twin = replace(rig.open()[0], id="01" + "0" * 24)

    with pytest.raises(IntegrityError), control_db.transaction(rig.db) as connection:
        register.add(connection, twin)
