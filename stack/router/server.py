"""A router that is listening."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from base.clock import SystemClock
from stack.registry.catalog import Catalog
from stack.router.app import Router, RouterSettings
from stack.wire import names
from stack.wire.alive import AliveSpans
from stack.wire.bearer import bearer
from stack.wire.exposure import warn_if_exposed
from stack.wire.otel import make_tracer
from stack.wire.serving import Listener, background, listen


@asynccontextmanager
async def serving_router(
    settings: RouterSettings,
    address: str,
    *,
    otlp_url: str | None = None,
    otlp_key_file: Path | None = None,
    registry_url: str | None = None,
    instance: str = "rt-0",
) -> AsyncIterator[Listener]:
    """Serve a router for the block; leaving it drains."""
    clock = SystemClock()
    tracer, stop_tracing = make_tracer(
        names.ROUTER_SERVICE, instance, otlp_url, headers=bearer(otlp_key_file)
    )
    async with httpx.AsyncClient(trust_env=False) as client:
        router = Router(settings, Catalog(registry_url, client), client, tracer, clock)
        alive = AliveSpans(tracer, names.ROUTER_ROLE, clock)
        async with router.running(), background(alive.run()):
            listener = await listen(router.app, address)
            warn_if_exposed(address, "router", "everything")
            try:
                yield listener
            finally:
                await listener.stop()
    await asyncio.to_thread(stop_tracing)
