"""`python -m stack.fleet`: keeps engines behind a router and obeys `PUT /replicas`."""

from __future__ import annotations

import argparse
import asyncio
import os

from base.selfmon import set_up_logging
from stack.fleet.options import add_fleet_options
from stack.fleet.server import serving_fleet
from stack.wire.serving import announce, until_signalled


async def _serve(args: argparse.Namespace) -> None:
    async with serving_fleet(args, args.router, args.listen) as listener:
        announce(url=listener.url, metrics=f"{listener.url}/metrics")
        await until_signalled()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m stack.fleet", description=__doc__)
    made.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    made.add_argument("--router", required=True, metavar="URL")
    add_fleet_options(made)
    return made


def main() -> None:
    args = parser().parse_args()
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    asyncio.run(_serve(args))


if __name__ == "__main__":
    main()
