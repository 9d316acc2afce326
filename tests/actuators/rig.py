"""The loop wired to the fake world."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from world import World

from actuators import read
from actuators.drivers.build import Drivers, build_drivers
from actuators.lease import Lease
from actuators.loop import ControlLoop, ScopeReport
from actuators.settings import ActuatorSettings
from base.clock import ManualClock

TICK_S = 5


def make_settings(**changes: Any) -> ActuatorSettings:
    """Settings on a demo's scale; keyword arguments override single fields."""
    base: dict[str, Any] = {
        "tick": f"{TICK_S}s",
        "window": "20s",
        "baseline": "5m",
        "stale_after": "15s",
        "lease_ttl": "60s",
        "verify_within": "45s",
        "calm_for": "30s",
        "undo_every": "15s",
        "remember_peak": "1m",
        "cold_for": "10m",
        "gateways": [{"name": "demo", "ttl": "30s"}],
        "fleets": [
            {"name": "chat", "url": "http://fleet.test", "min": 1, "max": 6, "cold_start": "15s"}
        ],
        "limits": {"cooldown": "10s", "changes_per_hour": 30},
        "scale_in": False,
    }
    return ActuatorSettings.model_validate({**base, **changes})


class Rig:
    """A world, a loop and a clock that move together."""

    def __init__(
        self, world: World, db: Engine, clock: ManualClock, settings: ActuatorSettings
    ) -> None:
        self.world, self.db, self.clock, self.settings = world, db, clock, settings
        self.http = world.http()
        self.drivers: Drivers = build_drivers(settings, world, db, clock, self.http)
        world.board = self.drivers.policies
        self.loop = self.new_loop()

    def new_loop(self) -> ControlLoop:
        """Start the control plane again: nothing but the database survives."""
        self.drivers = build_drivers(self.settings, self.world, self.db, self.clock, self.http)
        self.world.board = self.drivers.policies
        self.loop = ControlLoop(
            self.world,
            self.db,
            self.drivers,
            self.settings,
            self.clock,
            sources=self.world.sources,
        )
        return self.loop

    def tick(self) -> list[ScopeReport]:
        return self.loop.tick(self.world.verdicts(), self.clock.now())

    def run(self, seconds: int) -> list[ScopeReport]:
        """Let the world go on, with a tick every five seconds."""
        reports: list[ScopeReport] = []
        for _ in range(seconds // TICK_S):
            self.world.run(TICK_S)
            reports += self.tick()
        return reports

    def leases(self) -> list[Lease]:
        """Every lease, the oldest first."""
        return sorted(read.actions(self.db, limit=1000), key=lambda x: (x.created_at, x.id))

    def open(self) -> list[Lease]:
        return [x for x in self.leases() if x.is_open]
