"""`python -m stack.gateway`: the reference stack's front door as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from base.selfmon import set_up_logging
from stack.gateway.app import GatewaySettings
from stack.gateway.options import add_waiting_options
from stack.gateway.server import Surroundings, serving_gateway
from stack.gateway.tenants import load_tenants
from stack.wire.options import add_otlp_options
from stack.wire.serving import announce, until_signalled


async def _serve(args: argparse.Namespace) -> None:
    settings = GatewaySettings(
        router_url=args.router.rstrip("/"),
        name=args.name,
        places=args.max_concurrency,
        waiting=args.max_waiting,
        longest_wait_s=args.longest_wait,
        request_timeout_s=args.timeout,
        engine_priority=args.engine_priority,
    )
    around = Surroundings(
        otlp_url=args.otlp,
        otlp_key_file=args.otlp_key_file,
        control_url=args.control,
        control_key_file=args.control_key_file,
        registry_url=args.registry,
        instance=args.instance,
    )
    tenants = load_tenants(args.tenants, os.environ)
    async with serving_gateway(settings, tenants, around, args.listen) as listener:
        announce(url=listener.url, metrics=f"{listener.url}/metrics", instance=args.instance)
        await until_signalled()


def parser() -> argparse.ArgumentParser:
    base = GatewaySettings("")
    made = argparse.ArgumentParser(prog="python -m stack.gateway", description=__doc__)
    option = made.add_argument
    option("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    option("--router", required=True, metavar="URL")
    option("--tenants", required=True, type=Path, metavar="FILE", help="YAML or JSON")
    option("--control", metavar="URL", help="tokenweir, for shedding policies")
    option("--control-key-file", type=Path, metavar="FILE")
    option("--registry", metavar="URL", help="none: any model may be asked for")
    option("--name", default=base.name, help="whose policy it asks for")
    option("--instance", default="gw-0", help="service.instance.id of its spans")
    option("--timeout", type=float, default=base.request_timeout_s, metavar="S")
    option("--engine-priority", action="store_true", help="engines schedule by priority")
    add_waiting_options(made)
    add_otlp_options(made)
    return made


def main() -> None:
    args = parser().parse_args()
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    asyncio.run(_serve(args))


if __name__ == "__main__":
    main()
