"""Ways to get an engine: in this process, as a process of its own, or one that runs already."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import httpx

from base.errors import Retryable
from base.selfmon import Log
from stack.engine.server import EngineServer, serve
from stack.engine.settings import EngineSettings
from stack.wire.health import is_healthy

log = Log(__name__)

_ASK_EVERY_S = 0.25
_KILL_AFTER_S = 10.0


class RunningEngine(Protocol):
    """An engine that answers at `url`."""

    @property
    def url(self) -> str: ...

    async def ended(self) -> None:
        """Return when the engine is gone although nobody stopped it."""

    async def stop(self) -> None:
        """Finish what is in flight and end."""


class Launcher(Protocol):
    """Starts one engine and returns when it answers. Raises Retryable when it does not come up."""

    async def launch(self, replica: str) -> RunningEngine: ...


class InProcess:
    """Simulated engines in this event loop: the least memory."""

    def __init__(self, template: EngineSettings) -> None:
        self._template = template

    async def launch(self, replica: str) -> RunningEngine:
        return _InProcessEngine(await serve(replace(self._template, instance=replica)))


@dataclass(slots=True)
class _InProcessEngine:
    server: EngineServer

    @property
    def url(self) -> str:
        return self.server.url

    async def ended(self) -> None:
        await asyncio.get_running_loop().create_future()  # it ends only with this process

    async def stop(self) -> None:
        await self.server.drain()
        await self.server.close()


class Command:
    """Engines as processes: simulated ones, or real vLLM.

    In the words of the command {port} and {replica} are replaced. The engine is ready when its
    /health answers, which for real vLLM takes 35 to 70 s and more.
    """

    def __init__(self, command: str, client: httpx.AsyncClient, ready_within_s: float) -> None:
        self._words = shlex.split(command)
        self._client = client
        self._ready_within_s = ready_within_s

    async def launch(self, replica: str) -> RunningEngine:
        port = _free_port()
        words = [w.replace("{port}", str(port)).replace("{replica}", replica) for w in self._words]
        process = await asyncio.create_subprocess_exec(
            *words,
            stdout=sys.stderr,
            env={**os.environ, **_otel_identity(replica)},
            start_new_session=True,
        )
        started = _ProcessEngine(f"http://127.0.0.1:{port}", process)
        try:
            await self._until_ready(started, words[0])
        except BaseException:
            await started.stop()
            raise
        return started

    async def _until_ready(self, started: _ProcessEngine, program: str) -> None:
        try:
            async with asyncio.timeout(self._ready_within_s):
                while not await is_healthy(started.url, self._client, 2.0):
                    if started.process.returncode is not None:
                        raise Retryable(f"{program} exited with {started.process.returncode}")
                    await asyncio.sleep(_ASK_EVERY_S)
        except TimeoutError as error:
            raise Retryable(f"{program}: no /health in {self._ready_within_s:g} s") from error


@dataclass(slots=True)
class _ProcessEngine:
    url: str
    process: asyncio.subprocess.Process

    async def ended(self) -> None:
        await self.process.wait()

    async def stop(self) -> None:
        """Ask with SIGTERM, insist with SIGKILL, always the whole process group."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.returncode is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_KILL_AFTER_S):
                    await self.process.wait()


class External:
    """Engines that run already: a replica is one of their addresses."""

    def __init__(self, urls: Sequence[str], client: httpx.AsyncClient) -> None:
        self._free = [url.rstrip("/") for url in urls]
        self._client = client

    async def launch(self, replica: str) -> RunningEngine:
        for url in self._free:
            if await is_healthy(url, self._client, 2.0):
                self._free.remove(url)
                return _ExternalEngine(url, self._free)
        raise Retryable(f"no engine is free and healthy for {replica}")


@dataclass(slots=True)
class _ExternalEngine:
    url: str
    free: list[str]

    async def ended(self) -> None:
        await asyncio.get_running_loop().create_future()  # the router's health checks watch it

    async def stop(self) -> None:
        self.free.append(self.url)


def simulated_command(template: EngineSettings) -> str:
    """Write the command that starts a template's engine as a process."""
    words = [
        *(sys.executable, "-m", "stack.engine", "--port", "{port}", "--instance", "{replica}"),
        *("--model", template.model, "--speed", str(template.speed)),
        *("--gpu-type", template.gpu_type, "--gpu-count", str(template.gpu_count)),
        *("--num-gpu-blocks", str(template.limits.num_gpu_blocks)),
        *("--max-num-seqs", str(template.limits.max_num_seqs)),
    ]
    if template.otlp_url is not None:
        words += ["--otlp", template.otlp_url]
    if template.otlp_key_file is not None:
        words += ["--otlp-key-file", str(template.otlp_key_file)]
    return shlex.join(words)


def _otel_identity(replica: str) -> dict[str, str]:
    """Name a real vLLM's spans after its replica: they carry no other identity."""
    given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own = f"service.instance.id={replica}"
    return {"OTEL_RESOURCE_ATTRIBUTES": f"{given},{own}" if given else own}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
