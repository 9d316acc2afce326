"""`python -m stack.up`: the whole reference stack in one process.

Gateway, router, fleet of simulated engines, model registry and pager listen on free ports of
loopback and speak HTTP to each other as they would apart. When all of it serves, one JSON line
with every address goes to standard output. SIGTERM drains, front to back.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from base.clock import SystemClock
from base.selfmon import set_up_logging
from stack.engine.pages import VERSION
from stack.fleet.options import add_fleet_options
from stack.fleet.server import serving_fleet
from stack.gateway.app import GatewaySettings
from stack.gateway.demo_tenants import (
    DEFAULT,
    KEYS_FILE,
    open_demo_tenants,
    parse_tenant,
    write_private,
)
from stack.gateway.options import add_waiting_options
from stack.gateway.server import Surroundings, serving_gateway
from stack.pager.app import Pager, new_secret
from stack.pager.signature import read_secret
from stack.registry.app import load_registry
from stack.registry.entries import ModelEntry
from stack.router.app import RouterSettings
from stack.router.server import serving_router
from stack.wire.exposure import warn_if_exposed
from stack.wire.serving import Listener, announce, listen, until_signalled


@asynccontextmanager
async def running(args: argparse.Namespace) -> AsyncIterator[dict[str, Any]]:
    """Run the stack for the block; yields its addresses and the tenants' keys."""
    data: Path = args.data
    tenants = [parse_tenant(text) for text in args.tenant] or DEFAULT
    book, keys = open_demo_tenants(data, tenants)
    secret_file = data / "pager-secret"
    if not secret_file.exists():
        write_private(secret_file, new_secret())
    pager = Pager([read_secret(secret_file.read_text("utf-8"))], SystemClock())
    async with AsyncExitStack() as exits:
        pager_at = await _serve(exits, pager.app, args.pager)
        warn_if_exposed(args.pager, "pager", "the pages it received, and PagerDuty events")
        registry = load_registry(data / "registry.yaml")
        registry.register(ModelEntry(name=args.model, digests=_digests(args)))
        registry_at = await _serve(exits, registry.app, args.registry)
        warn_if_exposed(args.registry, "registry", "everything, PUT /models too")
        router_at = await exits.enter_async_context(
            serving_router(
                RouterSettings(),
                args.router,
                otlp_url=args.otlp,
                otlp_key_file=args.otlp_key_file,
                registry_url=registry_at.url,
            )
        )
        fleet_at = await exits.enter_async_context(
            serving_fleet(args, router_at.url, args.fleet, when_ready=True)
        )
        gateway_at = await exits.enter_async_context(
            serving_gateway(
                GatewaySettings(
                    router_url=router_at.url,
                    name=args.name,
                    places=args.max_concurrency,
                    waiting=args.max_waiting,
                    longest_wait_s=args.longest_wait,
                ),
                book,
                Surroundings(
                    otlp_url=args.otlp,
                    otlp_key_file=args.otlp_key_file,
                    control_url=args.control,
                    control_key_file=args.control_key_file,
                    registry_url=registry_at.url,
                ),
                args.listen,
            )
        )
        yield {
            "url": gateway_at.url,
            "metrics": f"{gateway_at.url}/metrics",
            "gateway": gateway_at.url,
            "gateway_name": args.name,
            "router": router_at.url,
            "fleet": fleet_at.url,
            "registry": registry_at.url,
            "pager": pager_at.url,
            "pager_webhook": f"{pager_at.url}/webhook",
            "pager_secret_file": str(secret_file),
            "model": args.model,
            "tenants": keys,
            "tenant_keys_file": str(data / KEYS_FILE),
        }


async def _serve(exits: AsyncExitStack, app: Any, address: str) -> Listener:
    listener = await listen(app, address)
    exits.push_async_callback(listener.stop)
    return listener


def _digests(args: argparse.Namespace) -> dict[str, str]:
    """Pin what a simulated engine reports; of other engines nothing is known beforehand."""
    return {} if args.engine_url or args.engine_command else {"engine": f"vllm-{VERSION}"}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m stack.up", description=__doc__)
    option = made.add_argument
    option("--data", type=Path, required=True, metavar="DIR", help="keys, secret and registry")
    option("--control", metavar="URL", help="tokenweir, for shedding policies")
    option("--control-key-file", type=Path, metavar="FILE")
    option("--name", default="demo", help="whose policy the gateway asks for")
    option(
        "--tenant",
        action="append",
        default=[],
        metavar="NAME[,priority=batch][,requests_per_minute=N]…",
        help="instead of " + ", ".join(tenant.id for tenant in DEFAULT),
    )
    option("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="the gateway")
    add_waiting_options(made)
    for piece in ("router", "fleet", "registry", "pager"):
        option(f"--{piece}", default="127.0.0.1:0", metavar="HOST:PORT")
    add_fleet_options(made)
    return made


async def _main(args: argparse.Namespace) -> None:
    async with running(args) as facts:
        announce(**facts)
        await until_signalled()


def main() -> None:
    args = parser().parse_args()
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    try:
        import uvloop
    except ImportError:
        asyncio.run(_main(args))
    else:
        uvloop.run(_main(args))


if __name__ == "__main__":
    main()
