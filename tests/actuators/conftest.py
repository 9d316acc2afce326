from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

sys.path.insert(0, str(Path(__file__).parent))

from rig import Rig, make_settings
from world import START, World

from base import db as control_db
from base.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Engine]:
    engine = control_db.open_engine(f"sqlite:///{tmp_path}/control.db")
    control_db.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def world(clock: ManualClock) -> World:
    world = World(clock, {"acme": 4.0, "beta": 4.0, "gamma": 4.0})
    world.run(600)
    return world


@pytest.fixture
def rig_of(world: World, db: Engine, clock: ManualClock) -> Callable[..., Rig]:
    def build(**changes: Any) -> Rig:
        return Rig(world, db, clock, make_settings(**changes))

    return build


@pytest.fixture
def rig(rig_of: Callable[..., Rig]) -> Rig:
    return rig_of()


@pytest.fixture
def minute() -> timedelta:
    return timedelta(minutes=1)
