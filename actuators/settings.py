"""The `actuators` section of tokenweir.yaml: what may be moved, how far, how fast."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, model_validator

from base.settings import PositiveDuration as Duration
from base.settings import Section


class GatewaySettings(Section):
    """A gateway that polls its shedding policy, and the traffic behind it."""

    name: str
    service: str | None = None  # the gateway's service.name; None: any gateway's telemetry counts
    models: tuple[str, ...] = ()  # only these models' requests; empty: all
    slos: tuple[str, ...] = ()  # only these SLOs steer it; empty: all
    ttl: Duration = timedelta(seconds=60)


class FleetSettings(Section):
    """A set of identical replicas whose number may be changed."""

    name: str
    driver: Literal["http", "keda", "noop"] = "http"
    url: str | None = None
    gateway: str | None = None  # the gateway in front of it; None: the first one
    model: str | None = None  # None: every model's requests load it
    min: int = Field(default=1, ge=0)
    max: int = Field(default=4, ge=1)
    tokens_per_s: float | None = Field(default=None, gt=0)  # one replica, until it is measured
    cold_start: Duration = timedelta(seconds=60)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"fleet {self.name!r}: min {self.min} is above max {self.max}")
        if self.driver == "http" and not self.url:
            raise ValueError(f"fleet {self.name!r}: driver http needs a url, or choose driver keda")
        return self


class Limits(Section):
    """Bounds no decision may cross, whatever the model of the world says."""

    max_shed_fraction: float = Field(default=0.9, gt=0, lt=1)
    protected_tenants: tuple[str, ...] = ()
    protected_priorities: tuple[str, ...] = ("interactive",)
    changes_per_hour: int = Field(default=12, ge=1)  # per target; undoing is never limited
    cooldown: Duration = timedelta(seconds=60)
    max_scale_up: int = Field(default=4, ge=1)  # one step adds at most this many or doubles


class Thresholds(Section):
    """What counts as a flood, as queueing, as a slow replica."""

    queueing_ms: float = Field(default=500, gt=0)
    flood_factor: float = Field(default=3, gt=1)  # times its own baseline
    flood_share: float = Field(default=0.3, gt=0, lt=1)  # of all offered work
    growth: float = Field(default=1.5, ge=1)  # a flooding tenant keeps this much of its baseline
    slow_factor: float = Field(default=3, gt=1)  # times the median of the other replicas
    error_share: float = Field(default=0.2, gt=0, lt=1)
    headroom: float = Field(default=0.85, gt=0, le=1)  # of measured capacity
    completion_weight: float = Field(default=3, gt=0)  # a decoded token's work in prefill tokens
    enough_requests: int = Field(default=10, ge=1)


class ActuatorSettings(Section):
    """When the loop looks, how long a lease lives, when it undoes."""

    enabled: bool = True
    dry_run: bool = False
    tick: Duration = timedelta(seconds=5)
    window: Duration = timedelta(minutes=1)
    baseline: Duration = timedelta(minutes=10)
    stale_after: Duration = timedelta(seconds=45)
    forget_after: Duration = timedelta(minutes=15)  # a source silent for longer was taken away
    lease_ttl: Duration = timedelta(minutes=5)
    verify_within: Duration = timedelta(minutes=2)
    effect: float = Field(default=0.2, gt=0, lt=1)  # how much better the metric must get
    cold_for: Duration = timedelta(minutes=15)
    calm_for: Duration = timedelta(minutes=3)
    undo_every: Duration = timedelta(minutes=1)
    remember_peak: Duration = timedelta(minutes=10)  # capacity stays for the highest recent load
    override_hold: Duration = timedelta(minutes=15)
    act_on: Literal["page", "any"] = "page"
    scale_in: bool = True  # also below what was found at the start, when calm and little loaded
    gateways: tuple[GatewaySettings, ...] = ()
    fleets: tuple[FleetSettings, ...] = ()
    limits: Limits = Limits()
    thresholds: Thresholds = Thresholds()

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.verify_within < self.window:
            raise ValueError(
                "actuators.verify_within is shorter than actuators.window: the effect "
                "would be judged on requests from before the change"
            )
        if self.undo_every < self.tick:
            raise ValueError("actuators.undo_every is shorter than actuators.tick")
        names = [g.name for g in self.gateways]
        for kind, listed in (("gateway", names), ("fleet", [f.name for f in self.fleets])):
            if len(set(listed)) != len(listed):
                raise ValueError(f"actuators: two {kind}s have the same name")
        for fleet in self.fleets:
            if fleet.gateway is not None and fleet.gateway not in names:
                raise ValueError(f"fleet {fleet.name!r}: gateway {fleet.gateway!r} is not listed")
        return self

    @property
    def signal_max_age(self) -> timedelta:
        """How long a scaling signal may be given out: three ticks, at least half a minute."""
        return max(3 * self.tick, timedelta(seconds=30))

    def fleets_behind(self, gateway: str) -> tuple[FleetSettings, ...]:
        """Return the fleets that serve a gateway's traffic."""
        first = self.gateways[0].name if self.gateways else gateway
        return tuple(f for f in self.fleets if (f.gateway or first) == gateway)

    def scopes(self) -> tuple[GatewaySettings, ...]:
        """Return the units that are judged and steered together: one per gateway.

        Fleets without any gateway form a scope of their own, named `default`.
        """
        if self.gateways or not self.fleets:
            return self.gateways
        return (GatewaySettings(name="default"),)
