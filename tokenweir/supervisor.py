"""`tokenweir up`: two processes, one log between them, each restarts alone.

The receiver acknowledges and never loads the engine; the server owns the store. If the server
hangs or dies, acknowledgements go on; if the receiver dies, pages and alerts go on.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from base.errors import ConfigError, TokenweirError
from base.selfmon import Log
from tokenweir.datadir import owned, remove_endpoints, write_endpoints

log = Log(__name__)

READY_WITHIN_S = 60.0
DRAIN_WITHIN_S = 30.0
PROBE_EVERY_S = 5.0
PROBE_LIMIT_S = 10.0
PROBES_FAILED = 3
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
STEADY_AFTER_S = 30.0  # a child that ran this long does not crash in a circle: back at once
CONFIG_ERROR = 2


@dataclass(slots=True)
class Child:
    """A supervised process. It prints one JSON line with its addresses when it is up.

    `argv` is called with the addresses of the last run, so that a restart keeps its ports.
    """

    name: str
    argv: Callable[[dict[str, Any]], Sequence[str]]
    addresses: dict[str, Any] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    ready_at: float = 0.0  # the event loop's time
    restarts: int = 0  # since it last ran for STEADY_AFTER_S
    _echo: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start, and wait for the ready line."""
        self.process = await asyncio.create_subprocess_exec(
            *self.argv(self.addresses),
            stdout=asyncio.subprocess.PIPE,
            # A terminal's Ctrl-C goes to the whole group; the supervisor decides the order instead.
            start_new_session=True,
        )
        self.addresses = await asyncio.wait_for(self._ready_line(), READY_WITHIN_S)
        self.ready_at = asyncio.get_running_loop().time()
        self._echo = asyncio.create_task(self._copy_output())
        log.info("child_ready", child=self.name, **{"pid": self.process.pid, **self.addresses})

    async def _ready_line(self) -> dict[str, Any]:
        assert self.process is not None and self.process.stdout is not None  # noqa: S101, PT018
        while line := await self.process.stdout.readline():
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                sys.stderr.write(f"{self.name}: {line.decode(errors='replace')}")
                continue
            if isinstance(found, dict) and found.pop("ready", False):
                return found
        code = await self.process.wait()
        if code == CONFIG_ERROR:
            raise ConfigError(f"the {self.name} refused its configuration (see above)")
        raise ChildFailedError(f"the {self.name} ended with {code} before it was ready")

    async def _copy_output(self) -> None:
        """Keep the pipe empty: a full one would block the child."""
        assert self.process is not None and self.process.stdout is not None  # noqa: S101, PT018
        while line := await self.process.stdout.readline():
            sys.stderr.write(f"{self.name}: {line.decode(errors='replace')}")

    async def stop(self) -> int:
        """SIGTERM, wait for the drain, SIGKILL only what does not drain in time."""
        if self.process is None or self.process.returncode is not None:
            return 0 if self.process is None else self.process.returncode or 0
        self.process.send_signal(signal.SIGTERM)
        try:
            code = await asyncio.wait_for(self.process.wait(), DRAIN_WITHIN_S)
        except TimeoutError:
            log.error("child_did_not_drain", child=self.name, pid=self.process.pid)
            self.process.kill()
            return await self.process.wait()
        # A child that was still starting has no handler yet, and nothing to drain.
        return 0 if code == -signal.SIGTERM else code


class ChildFailedError(TokenweirError):
    """A child ended before it was ready."""


class Supervisor:
    """Runs the receiver and the server until asked to stop."""

    def __init__(self, data: Path, receiver: Child, server: Child) -> None:
        self._data = data
        self._receiver = receiver
        self._server = server
        self._stopping = asyncio.Event()

    async def run(self, on_ready: Callable[[dict[str, Any]], None]) -> int:
        """Start both, publish `endpoints.json`, keep both alive; returns the exit status.

        ConfigError if the data folder belongs to another instance.
        """
        with owned(self._data, "supervisor"):
            return await self._run(on_ready)

    def stop(self) -> None:
        """Do what SIGTERM does."""
        self._stopping.set()

    async def _run(self, on_ready: Callable[[dict[str, Any]], None]) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        remove_endpoints(self._data)
        try:
            if not await self._start_both():
                return 0
            endpoints = self._endpoints()
            write_endpoints(self._data, endpoints)
            on_ready(endpoints)
            watchers = [
                asyncio.create_task(self._keep_alive(self._receiver)),
                asyncio.create_task(self._keep_alive(self._server)),
                asyncio.create_task(self._probe_server()),
            ]
            await self._stopping.wait()
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
        finally:
            remove_endpoints(self._data)
            # The receiver first: what it has acknowledged is then in the log for the server.
            codes = [await self._receiver.stop(), await self._server.stop()]
        return max((abs(code) for code in codes), default=0)

    async def _start_both(self) -> bool:
        """Start both; False when asked to stop before they were ready."""
        starting = asyncio.gather(
            self._receiver.start(), self._server.start(), return_exceptions=True
        )
        stopping = asyncio.ensure_future(self._stopping.wait())
        both: set[asyncio.Future[Any]] = {starting, stopping}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return False
        stopping.cancel()
        for failure in starting.result():
            if isinstance(failure, BaseException):
                raise failure
        return True

    def _endpoints(self) -> dict[str, Any]:
        return {
            "http": self._server.addresses["http"],
            "otlp_http": self._receiver.addresses["otlp_http"],
            "otlp_grpc": self._receiver.addresses["otlp_grpc"],
            "keda": self._server.addresses["keda"],
            "pid": os.getpid(),
        }

    async def _keep_alive(self, child: Child) -> None:
        while True:
            assert child.process is not None  # noqa: S101
            code = await child.process.wait()
            if asyncio.get_running_loop().time() - child.ready_at >= STEADY_AFTER_S:
                child.restarts = 0
            while True:
                wait = BACKOFF_S[min(child.restarts, len(BACKOFF_S) - 1)]
                child.restarts += 1
                log.error("child_ended", child=child.name, code=code, restart_in_s=wait)
                await asyncio.sleep(wait)
                try:
                    await child.start()
                except (ChildFailedError, ConfigError, TimeoutError) as error:
                    log.error("child_restart_failed", child=child.name, why=str(error))
                    await child.stop()
                    continue
                break

    async def _probe_server(self) -> None:
        """Kill a server that no longer answers a real query; `_keep_alive` restarts it."""
        failed = 0
        # Nothing is told and nothing believed but that it answers: the certificate is for others.
        async with httpx.AsyncClient(
            timeout=PROBE_LIMIT_S,
            trust_env=False,
            verify=False,  # noqa: S501
        ) as client:
            while True:
                await asyncio.sleep(PROBE_EVERY_S)
                try:
                    answer = await client.get(f"{self._server.addresses['http']}/-/healthy")
                    failed = 0 if answer.is_success else failed + 1
                except httpx.HTTPError:
                    failed += 1
                process = self._server.process
                if failed >= PROBES_FAILED and process is not None and process.returncode is None:
                    log.error("server_hangs", failed_probes=failed)
                    process.kill()
                    failed = 0
