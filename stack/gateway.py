"""`python -m stack.gateway`: the reference stack's front door as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from base.clock import SystemClock
from base.selfmon import set_up_logging
from stack import names
from stack.alive import AliveSpans
from stack.catalog import Catalog
from stack.gateway_app import Gateway, GatewaySettings
from stack.otel import make_tracer
from stack.policy_client import PolicyClient
from stack.serving import Listener, announce, background, listen, until_signalled
from stack.tenants import TenantBook, load_tenants


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a gateway talks to, each optional: telemetry, policies, the model registry."""

    otlp_url: str | None = None
    control_url: str | None = None
    control_key: str | None = None
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
    )
    async with httpx.AsyncClient(trust_env=False) as client:
        policy = None
        if around.control_url is not None:
            policy = PolicyClient(
                around.control_url,
                settings.name,
                client,
                clock,
                headers={"x-gateway-instance": around.instance, **_bearer(around.control_key)},
            )
        catalog = Catalog(around.registry_url, client)
        gateway = Gateway(settings, tenants, catalog, tracer, clock, policy=policy)
        alive = AliveSpans(tracer, names.GATEWAY_ROLE, clock)
        async with gateway.running(), background(alive.run()):
            listener = await listen(gateway.app, address)
            try:
                yield listener
            finally:
                await listener.stop()
    await asyncio.to_thread(stop_tracing)


def read_key(path: Path | None) -> str | None:
    return path.read_text("utf-8").strip() if path is not None else None


def _bearer(key: str | None) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


async def _serve(args: argparse.Namespace) -> None:
    settings = GatewaySettings(
        router_url=args.router.rstrip("/"),
        name=args.name,
        places=args.max_concurrency,
        waiting=args.max_waiting,
        request_timeout_s=args.timeout,
        engine_priority=args.engine_priority,
    )
    around = Surroundings(
        otlp_url=args.otlp,
        control_url=args.control,
        control_key=read_key(args.control_key_file),
        registry_url=args.registry,
        instance=args.instance,
    )
    tenants = load_tenants(args.tenants, os.environ)
    async with serving_gateway(settings, tenants, around, args.listen) as listener:
        announce(url=listener.url, metrics=f"{listener.url}/metrics", instance=args.instance)
        await until_signalled()


def main() -> None:
    base = GatewaySettings("")
    parser = argparse.ArgumentParser(prog="python -m stack.gateway", description=__doc__)
    option = parser.add_argument
    option("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    option("--router", required=True, metavar="URL")
    option("--tenants", required=True, type=Path, metavar="FILE", help="YAML or JSON")
    option("--otlp", metavar="URL", help="OTLP/HTTP collector; none: no spans are sent")
    option("--control", metavar="URL", help="tokenweir, for shedding policies")
    option("--control-key-file", type=Path, metavar="FILE")
    option("--registry", metavar="URL", help="none: any model may be asked for")
    option("--name", default=base.name, help="whose policy it asks for")
    option("--instance", default="gw-0", help="service.instance.id of its spans")
    option("--max-concurrency", type=int, default=base.places)
    option("--max-waiting", type=int, default=base.waiting)
    option("--timeout", type=float, default=base.request_timeout_s, metavar="S")
    option("--engine-priority", action="store_true", help="engines schedule by priority")
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
