"""Make the drivers that the settings name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from sqlalchemy import Engine

from actuators.drivers.fleet import HttpFleet
from actuators.drivers.gateway import GatewayPolicy, PolicyBoard
from actuators.drivers.keda_fleet import KedaFleet
from actuators.drivers.noop import NoopFleet
from actuators.enact import Driver
from actuators.observe import FleetReader, Rows
from actuators.settings import ActuatorSettings, FleetSettings
from actuators.signals import SignalBoard
from base.clock import Clock


@dataclass(frozen=True, slots=True)
class Drivers:
    """The loop's hands (`levers`, by target), its eyes on fleets, and what others come to read."""

    levers: Mapping[str, Driver]
    readers: Mapping[str, FleetReader]
    policies: PolicyBoard
    signals: SignalBoard


def build_drivers(
    settings: ActuatorSettings, engine: Rows, db: Engine, clock: Clock, http: httpx.Client
) -> Drivers:
    """Make one driver per gateway and per fleet."""
    policies = PolicyBoard(db, {g.name: g.ttl for g in settings.gateways}, clock)
    signals = SignalBoard({f.name: f.min for f in settings.fleets}, settings.signal_max_age)
    levers: dict[str, Driver] = {
        f"gateway/{g.name}": GatewayPolicy(g.name, policies) for g in settings.gateways
    }
    readers: dict[str, FleetReader] = {}
    for fleet in settings.fleets:
        driver = _fleet_driver(fleet, settings, engine, db, signals, http)
        levers[f"fleet/{fleet.name}"] = driver
        readers[fleet.name] = driver.read
    return Drivers(levers, readers, policies, signals)


def _fleet_driver(
    fleet: FleetSettings,
    settings: ActuatorSettings,
    engine: Rows,
    db: Engine,
    signals: SignalBoard,
    http: httpx.Client,
) -> HttpFleet | KedaFleet | NoopFleet:
    match fleet.driver:
        case "http":
            return HttpFleet(fleet.name, fleet.url or "", http)
        case "keda":
            return KedaFleet(fleet, engine, db, signals, settings.stale_after)
        case "noop":
            return NoopFleet(fleet)
