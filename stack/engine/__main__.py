"""`python -m stack.engine`: one simulated vLLM replica as a process of its own."""

from __future__ import annotations

import asyncio

from base.selfmon import set_up_logging
from stack.engine.server import serve
from stack.engine.settings import EngineSettings, parse_arguments
from stack.wire.serving import announce, until_signalled


async def _serve(settings: EngineSettings) -> None:
    server = await serve(settings)
    announce(url=server.url, metrics=f"{server.url}/metrics", instance=settings.instance)
    await until_signalled()
    await server.drain()
    await server.close()


def main() -> None:
    settings = parse_arguments()
    set_up_logging()
    asyncio.run(_serve(settings))


if __name__ == "__main__":
    main()
