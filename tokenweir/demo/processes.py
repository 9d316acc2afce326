"""Processes that the demonstration starts, and ends by id."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

START_WITHIN_S = 60.0
END_WITHIN_S = 40.0


class ProcessFailedError(Exception):
    """A process of the demonstration ended early; the message names its log."""


class Managed:
    """One child process. What it says goes to a log file; its first JSON line may be awaited."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._process: asyncio.subprocess.Process | None = None
        self._file: IO[bytes] | None = None

    async def start(self, argv: Sequence[str]) -> None:
        self._file = self.log.open("wb")
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *argv,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._file,
            start_new_session=True,  # Ctrl-C is for the demonstration, which ends them in order
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    async def ready_line(self) -> dict[str, Any]:
        """Return the JSON object that says the process serves."""
        process = self._running()
        assert process.stdout is not None  # noqa: S101
        async with asyncio.timeout(START_WITHIN_S):
            while line := await process.stdout.readline():
                try:
                    found = json.loads(line)
                except json.JSONDecodeError:
                    continue
                if isinstance(found, dict) and found.get("ready"):
                    return found
        raise ProcessFailedError(f"{self.name} ended before it was ready: see {self.log}")

    async def finished(self) -> str:
        """Wait for the end and return what it wrote; ProcessFailedError if it failed."""
        output, _ = await self._running().communicate()
        if self._running().returncode:
            raise ProcessFailedError(f"{self.name} failed: see {self.log}")
        return output.decode()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL for what does not drain."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.communicate(), END_WITHIN_S)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._file is not None:
            self._file.close()

    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, f"{self.name} was not started"  # noqa: S101
        return self._process


def free_port(wanted: int) -> int:
    """Take `wanted` if nobody listens there, else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ProcessFailedError("no free port on 127.0.0.1")
