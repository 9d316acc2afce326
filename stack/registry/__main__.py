"""`python -m stack.registry`: the model registry as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from base.selfmon import set_up_logging
from stack.registry.app import load_registry
from stack.wire.exposure import warn_if_exposed
from stack.wire.serving import announce, listen, until_signalled


async def _serve(address: str, path: Path) -> None:
    listener = await listen(load_registry(path).app, address)
    warn_if_exposed(address, "registry", "everything, PUT /models too")
    announce(url=listener.url, metrics=None)
    await until_signalled()
    await listener.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stack.registry", description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    parser.add_argument("--file", type=Path, required=True, help="YAML or JSON, made if missing")
    args = parser.parse_args()
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    asyncio.run(_serve(args.listen, args.file))


if __name__ == "__main__":
    main()
