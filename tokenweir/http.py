"""The one HTTP port: health, errors as JSON, who may ask, own metrics."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool

from base.errors import Permanent, Retryable
from base.selfmon import REGISTRY, Log

log = Log(__name__)

OPEN_PATHS = ("/-/ready", "/-/healthy")


@dataclass(slots=True)
class Readiness:
    """Why the server is not ready yet; empty when it is."""

    reasons: list[str] = field(default_factory=lambda: ["starting"])


def create_api(
    readiness: Readiness,
    is_healthy: Callable[[], bool],
    may_enter: Callable[[str | None, bool], bool],
) -> FastAPI:
    """Make the application without the folders' routers.

    `may_enter(key, peer_is_loopback)` decides who may ask; `is_healthy` runs a real store query.
    """
    app = FastAPI(
        title="tokenweir",
        version="1",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # the pages of Swagger and ReDoc come from a CDN; nothing here does
        redoc_url=None,
    )

    @app.middleware("http")
    async def admit(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if request.url.path in OPEN_PATHS:
            return await call_next(request)
        key, loopback = presented_key(request), peer_is_loopback(request)
        if await run_in_threadpool(may_enter, key, loopback):
            return await call_next(request)
        return JSONResponse(
            problem(401, "a valid API key is needed", "send `Authorization: Bearer twk_…`"),
            401,
            headers={"www-authenticate": 'Basic realm="tokenweir: any name, key as password"'},
        )

    @app.get("/-/ready", include_in_schema=False)
    def ready() -> JSONResponse:
        reasons = list(readiness.reasons)
        return JSONResponse({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    @app.get("/-/healthy", include_in_schema=False)
    def healthy() -> JSONResponse:
        well = is_healthy()
        return JSONResponse({"healthy": well}, 200 if well else 503)

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(Permanent)
    def on_permanent(_: Request, error: Permanent) -> JSONResponse:
        return JSONResponse(problem(400, str(error)), 400)

    @app.exception_handler(Retryable)
    def on_retryable(_: Request, error: Retryable) -> JSONResponse:
        wait = 5 if error.after is None else math.ceil(error.after.total_seconds())
        return JSONResponse(problem(503, str(error)), 503, headers={"retry-after": str(wait)})

    @app.exception_handler(RequestValidationError)
    def on_invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
            for item in error.errors()
        )
        return JSONResponse(problem(422, wrong), 422)

    return app


def problem(status: int, what: str, todo: str | None = None) -> dict[str, object]:
    """Shape every error alike: {"error": {"status", "message", "todo"}}."""
    return {"error": {"status": status, "message": what, **({"todo": todo} if todo else {})}}


def presented_key(request: Request) -> str | None:
    """Find the key: Bearer, X-API-Key, or the password of a browser's Basic dialogue."""
    if key := request.headers.get("x-api-key"):
        return key
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip() or None
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2] or None
        except (binascii.Error, UnicodeDecodeError):
            return None
    return None


def peer_is_loopback(request: Request) -> bool:
    if request.client is None:
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
