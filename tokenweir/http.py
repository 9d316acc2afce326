"""The one HTTP port: health, errors as JSON, who may ask, own metrics."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from base.errors import Permanent, Retryable
from base.selfmon import REGISTRY, Log
from base.tenancy import bind_to, refuse_other_endpoints

log = Log(__name__)

OPEN_PATHS = ("/-/ready", "/-/healthy")
API = "/api/"
PAGE_UPDATES = "/_dash-"  # the pages read by POST
ADDRESSES = "/api/v1/endpoints"
FOR_MACHINES = ("/api/v1/policies/", "/api/v1/scaling/", "/metrics")


FORWARDED = frozenset({"forwarded", "x-forwarded-for", "x-real-ip"})


class Entry(StrEnum):
    """What a caller is answered at the door."""

    OPEN = "open"
    FORBIDDEN = "forbidden"  # we know who it is
    UNKNOWN = "unknown"


class Wish(StrEnum):
    """What a request wants to do; roles differ in what they may."""

    READ = "read"
    CHANGE = "change"
    DRIVE = "drive"  # what gateways, autoscalers and Prometheus poll
    FIND = "find"  # where this instance listens


@dataclass(frozen=True, slots=True)
class Admission:
    """What a caller may do here; `tenant` is the only one whose data it may see, None: all."""

    entry: Entry
    tenant: str | None = None


@dataclass(slots=True)
class Readiness:
    """Why the server is not ready yet; empty when it is."""

    reasons: list[str] = field(default_factory=lambda: ["starting"])


def create_api(
    readiness: Readiness,
    is_healthy: Callable[[], bool],
    may_enter: Callable[[str | None, bool, Wish], Admission],
) -> FastAPI:
    """Make the application without the folders' routers.

    `may_enter(key, peer_is_loopback, wish)` decides who may ask; `is_healthy` runs a real store
    query.
    """
    app = FastAPI(
        title="tokenweir",
        version="1",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # the pages of Swagger and ReDoc come from a CDN; nothing here does
        redoc_url=None,
        dependencies=[Depends(refuse_other_endpoints)],
    )

    @app.middleware("http")
    async def admit(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if request.url.path in OPEN_PATHS:
            return await call_next(request)
        key, loopback = presented_key(request), peer_is_loopback(request)
        admitted = may_enter(key, loopback, wish_of(request))  # looks in memory only
        bind_to(request, admitted.tenant)
        is_page = not request.url.path.startswith(API)
        if admitted.entry is Entry.OPEN and is_page and admitted.tenant is not None:
            return JSONResponse(
                problem(403, "pages show every tenant: this key reads the API", f"see {API}v1"), 403
            )
        if admitted.entry is Entry.OPEN:
            return await call_next(request)
        if admitted.entry is Entry.FORBIDDEN:
            return JSONResponse(
                problem(403, "this key's role may not do this", "use a read or an admin key"), 403
            )
        return JSONResponse(
            problem(
                401,
                "an API key is needed",
                "send `Authorization: Bearer twk_…`",
            ),
            401,
            headers={"www-authenticate": 'Basic realm="tokenweir: any name, key as password"'},
        )

    _add_health(app, readiness, is_healthy)
    _add_errors(app)
    return app


def _add_health(app: FastAPI, readiness: Readiness, is_healthy: Callable[[], bool]) -> None:
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


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    def on_refused(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse(
            problem(error.status_code, str(error.detail)), error.status_code, headers=error.headers
        )

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


def add_not_found(app: FastAPI) -> None:
    """Answer unknown API paths as JSON; call it after the routers, before the pages."""

    @app.api_route(
        "/api/{rest:path}", methods=["GET", "POST", "PUT", "DELETE"], include_in_schema=False
    )
    def not_found(rest: str) -> JSONResponse:
        what = f"there is no /api/{rest}"
        return JSONResponse(problem(404, what, "see /api/v1/openapi.json"), 404)


def wish_of(request: Request) -> Wish:
    """Tell reading from changing; the paths that machines poll are a case of their own."""
    path = request.url.path
    if path == ADDRESSES:
        return Wish.FIND
    if path.startswith(FOR_MACHINES):
        return Wish.DRIVE
    reads = request.method in {"GET", "HEAD", "OPTIONS"} or path.startswith(PAGE_UPDATES)
    return Wish.READ if reads else Wish.CHANGE


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
    """Say whether the caller is on this machine; one that came through a proxy is not."""
    if request.client is None or FORWARDED & {name.lower() for name in request.headers}:
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
