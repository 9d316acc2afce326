"""A gateway that is listening, with what it talks to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from base.clock import SystemClock
from stack.gateway.app import Gateway, GatewaySettings
from stack.gateway.policy_client import PolicyClient
from stack.gateway.tenants import TenantBook
from stack.registry.catalog import Catalog
from stack.wire import names
from stack.wire.alive import AliveSpans
from stack.wire.bearer import bearer
from stack.wire.exposure import warn_if_exposed
from stack.wire.otel import make_tracer
from stack.wire.serving import Listener, background, listen


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a gateway talks to, each optional: telemetry, policies, the model registry."""

    otlp_url: str | None = None
    otlp_key_file: Path | None = None
    control_url: str | None = None
    control_key_file: Path | None = None
    registry_url: str | None = None
    instance: str = "gw-0"
    version: str = "1"


@asynccontextmanager
async def serving_gateway(
    settings: GatewaySettings, tenants: TenantBook, around: Surroundings, address: str
) -> AsyncIterator[Listener]:
    """Serve a gateway for the block; leaving it drains."""
    clock = SystemClock()
    tracer, stop_tracing = make_tracer(
        names.GATEWAY_SERVICE,
        around.instance,
        around.otlp_url,
        {names.SERVICE_VERSION: around.version},
        headers=bearer(around.otlp_key_file),
    )
    async with httpx.AsyncClient(trust_env=False) as client:
        policy = None
        if around.control_url is not None:
            policy = PolicyClient(
                around.control_url,
                settings.name,
                client,
                clock,
                headers={"x-gateway-instance": around.instance, **bearer(around.control_key_file)},
            )
        catalog = Catalog(around.registry_url, client)
        gateway = Gateway(settings, tenants, catalog, tracer, clock, policy=policy)
        alive = AliveSpans(tracer, names.GATEWAY_ROLE, clock)
        async with gateway.running(), background(alive.run()):
            listener = await listen(gateway.app, address)
            warn_if_exposed(address, "gateway", "/metrics /policy")
            try:
                yield listener
            finally:
                await listener.stop()
    await asyncio.to_thread(stop_tracing)
