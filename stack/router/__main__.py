"""`python -m stack.router`: the reference stack's router as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os

import httpx

from base.selfmon import set_up_logging
from stack.router.app import RouterSettings
from stack.router.choice import Balance
from stack.router.server import serving_router
from stack.router.workers import HealthRules
from stack.wire.options import add_otlp_options
from stack.wire.serving import announce, until_signalled


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
        otlp_key_file=args.otlp_key_file,
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


def parser() -> argparse.ArgumentParser:
    balance, health, base = Balance(), HealthRules(), RouterSettings()
    made = argparse.ArgumentParser(prog="python -m stack.router", description=__doc__)
    option = made.add_argument
    option("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    option("--worker-urls", nargs="*", default=[], metavar="URL")
    option("--registry", metavar="URL", help="none: any engine is accepted")
    option("--instance", default="rt-0", help="service.instance.id of its spans")
    option("--cache-threshold", type=float, default=balance.least_match)
    option("--balance-abs-threshold", type=int, default=balance.absolute)
    option("--balance-rel-threshold", type=float, default=balance.relative)
    option("--health-check-interval-secs", type=float, default=health.interval_s)
    option("--worker-startup-timeout-secs", type=float, default=base.startup_wait_s)
    option("--max-concurrent-requests", type=int, default=base.max_concurrent)
    add_otlp_options(made)
    return made


def main() -> None:
    args = parser().parse_args()
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    asyncio.run(_serve(args))


if __name__ == "__main__":
    main()
