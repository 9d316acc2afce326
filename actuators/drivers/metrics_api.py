"""The scaling signal as JSON, for KEDA's metrics-api trigger (`valueLocation: desired`)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path

from actuators.signals import SignalBoard
from base.clock import Clock
from base.durations import format_instant
from base.errors import BadInput, Retryable


def router(signals: SignalBoard, clock: Clock) -> APIRouter:
    """Serve one number per fleet, or an error: KEDA holds on anything but a 2xx."""
    routes = APIRouter(tags=["actuators"])

    @routes.get("/api/v1/scaling/{target}")
    def scaling(target: Annotated[str, Path(description="a fleet's name")]) -> dict[str, Any]:
        """Return how many replicas a fleet should have; 503 when that is not known."""
        now = clock.now()
        try:
            signal, desired = signals.read(target, now)
        except BadInput as error:
            raise HTTPException(404, str(error)) from error
        except Retryable as error:
            raise HTTPException(503, str(error), headers={"Retry-After": "15"}) from error
        signals.asked(target, now)
        return {
            "target": target,
            "desired": desired,
            "needed": signal.need,
            "active": desired > 0,
            "at": format_instant(signal.at),
            "reason": signal.why,
            "lease_id": signal.lease_id,
        }

    return routes
