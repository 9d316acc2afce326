"""How a stack process listens, says that it is ready, and stops: several servers in one loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn

from base.errors import ConfigError

DRAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Listener:
    """A server that is accepting connections."""

    url: str
    _server: uvicorn.Server
    _task: asyncio.Task[None]

    async def stop(self) -> None:
        """Stop accepting, let the requests in flight finish, then return."""
        self._server.should_exit = True
        await self._task


async def listen(app: Any, address: str = "127.0.0.1:0", *, drain_s: float = DRAIN_S) -> Listener:
    """Serve an ASGI application on HOST:PORT; port 0 picks a free one."""
    host, _, port = address.rpartition(":")
    try:
        sock = socket.create_server((host or "127.0.0.1", int(port)), backlog=1024)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot listen on {address!r}: {error}") from error
    server = _Embedded(
        uvicorn.Config(
            app,
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="warning",
            ws="none",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=round(drain_s),
        )
    )
    task = asyncio.create_task(server.serve(sockets=[sock]), name=f"serve {address}")
    while not server.started and not task.done():  # noqa: ASYNC110  uvicorn offers no event
        await asyncio.sleep(0.005)
    if task.done():
        await task
    bound_host, bound_port = sock.getsockname()[:2]
    return Listener(f"http://{bound_host}:{bound_port}", server, task)


def announce(**facts: Any) -> None:
    """Print the one line that whoever started this process waits for."""
    sys.stdout.write(json.dumps({"ready": True, **facts}) + "\n")
    sys.stdout.flush()


async def until_signalled() -> None:
    """Return at the first SIGTERM or SIGINT; a second one ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def first() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, first)
    await stop.wait()


@contextlib.asynccontextmanager
async def background(*coroutines: Any) -> Any:
    """Run coroutines beside the block and cancel them when it ends."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Embedded(uvicorn.Server):
    """A server that leaves the signals to the process it is one part of."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
