"""The router's admin interface: vllm-router's calls, plus what a drain needs to be watched."""

from __future__ import annotations

import asyncio
import json

import httpx
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from base.errors import BadInput, Retryable
from stack.registry.catalog import Catalog
from stack.registry.identity import ask_identity, check_identity
from stack.router.metrics import RouterMetrics
from stack.router.workers import WorkerTable
from stack.wire.health import is_healthy
from stack.wire.openai_api import OPERATIONS

_ASK_EVERY_S = 0.1


def admin_routes(
    workers: WorkerTable,
    metrics: RouterMetrics,
    catalog: Catalog,
    client: httpx.AsyncClient,
    startup_wait_s: float,
    completions: ASGIApp,
) -> list[BaseRoute]:
    """Build every route of the router; `completions` serves the inference paths."""
    admin = _Admin(workers, metrics, catalog, client, startup_wait_s)
    return [
        *(Route(path, completions, methods=["POST"]) for path in OPERATIONS),
        Route("/v1/models", admin.models),
        Route("/add_worker", admin.add_by_query, methods=["POST"]),
        Route("/remove_worker", admin.remove_by_query, methods=["POST"]),
        Route("/list_workers", admin.urls),
        Route("/workers", admin.listing, methods=["GET"]),
        Route("/workers", admin.add_by_body, methods=["POST"]),
        Route("/workers/{url:path}", admin.one, methods=["GET"]),
        Route("/workers/{url:path}", admin.remove_by_path, methods=["DELETE"]),
        Route("/readiness", admin.readiness),
        Route("/health", admin.health),
        Route("/metrics", admin.metrics_text),
    ]


class _Admin:
    def __init__(
        self,
        workers: WorkerTable,
        metrics: RouterMetrics,
        catalog: Catalog,
        client: httpx.AsyncClient,
        startup_wait_s: float,
    ) -> None:
        self._workers = workers
        self._metrics = metrics
        self._catalog = catalog
        self._client = client
        self._startup_wait_s = startup_wait_s

    async def add_by_query(self, request: Request) -> Response:
        query = request.query_params
        return await self._add(query.get("url", ""), query.get("name", ""))

    async def add_by_body(self, request: Request) -> Response:
        try:
            body = json.loads(await request.body())
            url, name = str(body["url"]), str(body.get("name", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            return _problem("the body must be a JSON object with 'url'", "bad_request")
        return await self._add(url, name)

    async def remove_by_query(self, request: Request) -> Response:
        return self._remove(request.query_params.get("url", ""))

    async def remove_by_path(self, request: Request) -> Response:
        return self._remove(request.path_params["url"])

    async def listing(self, _request: Request) -> Response:
        listed = [worker.describe() for worker in self._workers]
        ready = sum(worker["state"] == "ready" for worker in listed)
        return JSONResponse({"workers": listed, "total": len(listed), "stats": {"ready": ready}})

    async def urls(self, _request: Request) -> Response:
        return JSONResponse({"urls": [w.url for w in self._workers if not w.draining]})

    async def one(self, request: Request) -> Response:
        worker = self._workers.get(request.path_params["url"])
        if worker is None:
            return JSONResponse({"error": "no such worker", "code": "not_found"}, 404)
        return JSONResponse(worker.describe())

    async def models(self, _request: Request) -> Response:
        data = [{"id": m, "object": "model", "owned_by": "vllm"} for m in self._workers.models()]
        return JSONResponse({"object": "list", "data": data})

    async def readiness(self, _request: Request) -> Response:
        states = [worker.healthy for worker in self._workers if not worker.draining]
        status = 200 if any(states) else 503
        return JSONResponse({"healthy": sum(states), "total": len(states)}, status)

    async def health(self, _request: Request) -> Response:
        # The router is healthy when it answers: one sick worker is not the router's sickness.
        return JSONResponse({"status": "ok"})

    async def metrics_text(self, _request: Request) -> Response:
        return Response(self._metrics.text(self._workers), media_type=CONTENT_TYPE_LATEST)

    async def _add(self, url: str, name: str) -> Response:
        if not url.startswith("http://"):
            return _problem(f"worker url {url!r} must start with http://", "bad_request")
        url = url.rstrip("/")
        if not await self._comes_up(url):
            return _problem(
                f"worker {url} was not healthy within {self._startup_wait_s:g} s", "unhealthy"
            )
        try:
            identity = await ask_identity(url, self._client)
            if self._catalog.entries is None:
                await self._catalog.refresh()
            check_identity(identity, self._catalog.entries)
        except Retryable as error:
            return _problem(str(error), "unhealthy")
        except BadInput as error:
            return _problem(f"worker {url} refused: {error}", "model_mismatch")
        try:
            worker = self._workers.add(url, name, identity.models)
        except BadInput as error:
            return _problem(str(error), "known")
        return JSONResponse(worker.describe())

    async def _comes_up(self, url: str) -> bool:
        try:
            async with asyncio.timeout(self._startup_wait_s):
                while not await is_healthy(url, self._client, 2.0):  # noqa: ASYNC110
                    await asyncio.sleep(_ASK_EVERY_S)
        except TimeoutError:
            return False
        return True

    def _remove(self, url: str) -> Response:
        found = self._workers.remove(url)
        return JSONResponse({"status": "removed" if found else "unknown", "url": url})


def _problem(message: str, code: str) -> Response:
    return JSONResponse({"error": message, "code": code}, 400)
