"""REST: what was done and why, and how people overrule it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine

from actuators import read
from actuators.drivers import metrics_api
from actuators.drivers.build import Drivers
from actuators.drivers.gateway import MAX_WAIT_S
from actuators.loop import ControlLoop
from actuators.overrules import Hold, KillSwitch, lift_hold, place_hold, set_kill_switch
from actuators.report_json import hold_json, kill_switch_json, report_json
from actuators.settings import ActuatorSettings
from base.clock import Clock
from base.db import transaction
from base.durations import parse_duration, parse_instant
from base.errors import BadInput

_LONGEST_HOLD = timedelta(days=30)


class _Order(BaseModel):
    """Somebody's order: a name and a reason are part of it."""

    model_config = ConfigDict(extra="forbid")
    by: str = Field(min_length=1, max_length=128)
    reason: str = Field(min_length=1, max_length=1000)


class KillSwitchOrder(_Order):
    on: bool


class RevertOrder(_Order):
    pass


class HoldOrder(_Order):
    target: str = Field(min_length=1, max_length=256, examples=["gateway/demo"])
    duration: str = Field(default="1h", alias="for", examples=["30m"])


def router(
    db: Engine, loop: ControlLoop, drivers: Drivers, settings: ActuatorSettings, clock: Clock
) -> APIRouter:
    """Serve actions, overrules, policies and scaling signals."""
    routes = APIRouter(tags=["actuators"])
    _add_actions(routes, db, loop, settings, clock)
    _add_overrules(routes, db, loop, drivers, clock)
    _add_policies(routes, drivers, clock)
    routes.include_router(metrics_api.router(drivers.signals, clock))
    return routes


def _add_actions(
    routes: APIRouter, db: Engine, loop: ControlLoop, settings: ActuatorSettings, clock: Clock
) -> None:
    @routes.get("/api/v1/actions")
    def actions(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100, since: str | None = None
    ) -> dict[str, Any]:
        """List leases, open ones first: cause, evidence, expectation, measured effect, timeline."""
        try:
            start = None if since is None else parse_instant(since)
        except BadInput as error:
            raise HTTPException(400, str(error)) from error
        switch, held = read.overrules(db, clock.now())
        return {
            "mode": "off" if not settings.enabled else "dry_run" if settings.dry_run else "live",
            "kill_switch": kill_switch_json(switch),
            "holds": [hold_json(h) for h in held],
            "scopes": [report_json(r) for r in loop.reports.values()],
            "actions": [read.action_json(x) for x in read.actions(db, limit=limit, since=start)],
        }

    @routes.post("/api/v1/actions/{lease_id}/revert")
    def revert(lease_id: Annotated[str, Path()], order: RevertOrder) -> dict[str, Any]:
        """Take one lease back now."""
        try:
            return read.action_json(loop.revert(lease_id, order.by, order.reason, clock.now()))
        except BadInput as error:
            raise HTTPException(404, str(error)) from error


def _add_overrules(
    routes: APIRouter, db: Engine, loop: ControlLoop, drivers: Drivers, clock: Clock
) -> None:
    @routes.post("/api/v1/actions/kill-switch")
    def kill_switch(order: KillSwitchOrder) -> dict[str, Any]:
        """On: take every lease back and do nothing new. Off: act again."""
        now = clock.now()
        switch = KillSwitch(order.on, order.by, order.reason, now)
        with transaction(db) as connection:
            set_kill_switch(connection, switch)
        taken = loop.take_all_back(order.by, order.reason, now) if order.on else []
        return {**kill_switch_json(switch), "reverted": [lease.id for lease in taken]}

    @routes.post("/api/v1/actions/holds", status_code=201)
    def hold(order: HoldOrder) -> dict[str, Any]:
        """Keep the loop's hands off a target for a while."""
        if order.target not in drivers.levers:
            known = ", ".join(sorted(drivers.levers)) or "none"
            raise HTTPException(404, f"no target is called {order.target!r}; known: {known}")
        now = clock.now()
        try:
            length = parse_duration(order.duration)
        except BadInput as error:
            raise HTTPException(400, str(error)) from error
        if not timedelta(0) < length <= _LONGEST_HOLD:
            raise HTTPException(400, f"a hold of {order.duration} is not within 30 days")
        placed = Hold(order.target, order.by, order.reason, now, now + length)
        with transaction(db) as connection:
            place_hold(connection, placed)
        return hold_json(placed)

    @routes.delete("/api/v1/actions/holds/{target:path}", status_code=204)
    def lift(target: str, by: Annotated[str, Query(min_length=1)]) -> Response:
        """End a hold early."""
        with transaction(db) as connection:
            if not lift_hold(connection, target, by, clock.now()):
                raise HTTPException(404, f"{target!r} is not held")
        return Response(status_code=204)


def _add_policies(routes: APIRouter, drivers: Drivers, clock: Clock) -> None:
    @routes.get("/api/v1/policies/{gateway}")
    def policy(
        request: Request,
        gateway: str,
        wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S)] = 0,
        if_none_match: Annotated[str | None, Header()] = None,
        x_policy_version: Annotated[int | None, Header()] = None,
        x_gateway_instance: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Return a gateway's shedding rules; with `wait`, when they differ from If-None-Match."""
        etag = if_none_match.removeprefix("W/") if if_none_match else None
        instance = x_gateway_instance or (request.client.host if request.client else "")
        version = x_policy_version if x_policy_version is not None else _version_of(etag)
        if version is not None:
            drivers.policies.heard(gateway, instance, version, clock.now())
        try:
            found = drivers.policies.wait(gateway, etag, wait)
        except BadInput as error:
            raise HTTPException(404, str(error)) from error
        headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
        if found.etag == etag:
            return Response(status_code=304, headers=headers)
        return JSONResponse(dict(found.document), headers=headers)


def _version_of(etag: str | None) -> int | None:
    head = (etag or "").strip('"').partition(".")[0]
    return int(head) if head.isdigit() else None
