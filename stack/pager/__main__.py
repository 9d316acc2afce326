"""`python -m stack.pager`: the pager as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from base.clock import SystemClock
from base.selfmon import set_up_logging
from stack.pager.app import Pager, new_secret
from stack.pager.signature import read_secret
from stack.wire.exposure import warn_if_exposed
from stack.wire.serving import announce, listen, until_signalled


async def _serve(address: str, secret: str, *, show_secret: bool) -> None:
    pager = Pager([read_secret(secret)], SystemClock())
    listener = await listen(pager.app, address)
    warn_if_exposed(address, "pager", "the pages it received, and PagerDuty events")
    announce(
        url=listener.url,
        webhook=f"{listener.url}/webhook",
        pagerduty=f"{listener.url}/v2/enqueue",
        metrics=None,
        **({"secret": secret} if show_secret else {}),
    )
    await until_signalled()
    await listener.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stack.pager", description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    parser.add_argument(
        "--secret-file", type=Path, help="whsec_…; without one a secret is made and printed"
    )
    args = parser.parse_args()
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    given = args.secret_file.read_text("utf-8").strip() if args.secret_file else None
    asyncio.run(_serve(args.listen, given or new_secret(), show_secret=given is None))


if __name__ == "__main__":
    main()
