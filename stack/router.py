"""`python -m stack.router`: the reference stack's router as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from base.clock import SystemClock
from base.selfmon import set_up_logging
from stack import names
from stack.alive import AliveSpans
from stack.catalog import Catalog
from stack.choice import Balance
from stack.otel import make_tracer
from stack.router_app import Router, RouterSettings
from stack.serving import Listener, announce, background, listen, until_signalled
from stack.workers import HealthRules


@asynccontextmanager
async def serving_router(
    settings: RouterSettings,
    address: str,
    *,
    otlp_url: str | None = None,
    registry_url: str | None = None,
    instance: str = "rt-0",
) -> AsyncIterator[Listener]:
    """Serve a router for the block; leaving it drains."""
    clock = SystemClock()
    tracer, stop_tracing = make_tracer(names.ROUTER_SERVICE, instance, otlp_url)
    async with httpx.AsyncClient(trust_env=False) as client:
        router = Router(settings, Catalog(registry_url, client), client, tracer, clock)
        alive = AliveSpans(tracer, names.ROUTER_ROLE, clock)
        async with router.running(), background(alive.run()):
            listener = await listen(router.app, address)
            try:
                yield listener
            finally:
                await listener.stop()
    await asyncio.to_thread(stop_tracing)


async def _serve(args: argparse.Namespace) -> None:
    settings = RouterSettings(
        balance=Balance(
            least_match=args.cache_threshold,
            absolute=args.balance_abs_threshold,
            relative=args.balance_rel_threshold,
        ),
        health=HealthRules(interval_s=args.health_check_interval_secs),
        max_concurrent=args.max_concurrent_requests,
        startup_wait_s=args.worker_startup_timeout_secs,
    )
    async with serving_router(
        settings,
        args.listen,
        otlp_url=args.otlp,
        registry_url=args.registry,
        instance=args.instance,
    ) as listener:
        async with httpx.AsyncClient(trust_env=False) as client:
            for url in args.worker_urls:
                answer = await client.post(
                    f"{listener.url}/add_worker", params={"url": url}, timeout=None
                )
                answer.raise_for_status()
        announce(url=listener.url, metrics=f"{listener.url}/metrics", instance=args.instance)
        await until_signalled()


def main() -> None:
    balance, health, base = Balance(), HealthRules(), RouterSettings()
    parser = argparse.ArgumentParser(prog="python -m stack.router", description=__doc__)
    option = parser.add_argument
    option("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    option("--worker-urls", nargs="*", default=[], metavar="URL")
    option("--otlp", metavar="URL", help="OTLP/HTTP collector; none: no spans are sent")
    option("--registry", metavar="URL", help="none: any engine is accepted")
    option("--instance", default="rt-0", help="service.instance.id of its spans")
    option("--cache-threshold", type=float, default=balance.least_match)
    option("--balance-abs-threshold", type=int, default=balance.absolute)
    option("--balance-rel-threshold", type=float, default=balance.relative)
    option("--health-check-interval-secs", type=float, default=health.interval_s)
    option("--worker-startup-timeout-secs", type=float, default=base.startup_wait_s)
    option("--max-concurrent-requests", type=int, default=base.max_concurrent)
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
