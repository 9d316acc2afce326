"""The fleet's HTTP face: `GET /replicas` shows it, `PUT /replicas` changes its size."""

from __future__ import annotations

import json

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from base.errors import BadInput
from stack.fleet.replicas import Fleet, Phase


def fleet_app(fleet: Fleet) -> Starlette:
    """Build the HTTP face of a fleet."""
    registry = CollectorRegistry()
    for name, help_text, read in (
        ("desired", "Replicas asked for", lambda: fleet.desired),
        ("ready", "Replicas serving", lambda: fleet.count(Phase.READY)),
        ("starting", "Replicas in their cold start", lambda: fleet.count(Phase.STARTING)),
        ("draining", "Replicas finishing their requests", lambda: fleet.count(Phase.DRAINING)),
    ):
        Gauge(f"tokenweir_fleet_{name}_replicas", help_text, registry=registry).set_function(read)

    async def show(_request: Request) -> Response:
        return JSONResponse(fleet.document())

    async def change(request: Request) -> Response:
        try:
            body = json.loads(await request.body())
            count = body["desired"]
            if isinstance(count, bool) or not isinstance(count, int):
                return _problem("field 'desired' must be a whole number")
            lease_id = body.get("lease_id")
            fleet.set_desired(count, by=str(body.get("by", "unknown")), lease_id=lease_id)
        except (ValueError, KeyError, TypeError, AttributeError):
            return _problem("the body must be a JSON object with 'desired'")
        except BadInput as error:
            return _problem(str(error))
        return JSONResponse(fleet.document())

    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/replicas", show, methods=["GET"]),
            Route("/replicas", change, methods=["PUT"]),
            Route("/health", health),
            Route("/metrics", metrics),
        ]
    )


def _problem(message: str) -> Response:
    return JSONResponse({"error": message}, 400)
