from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from base.errors import ConfigError
from tokenweir.datadir import read_endpoints
from tokenweir.supervisor import Child, Supervisor

CHILD = """
import json, signal, sys, time
def stop(*_):
    open(sys.argv[2], "a").write(sys.argv[1] + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print(json.dumps({"ready": True, **json.loads(sys.argv[3])}), flush=True)
while True:
    time.sleep(0.05)
"""


def child(name: str, notes: Path, **addresses: str) -> Child:
    def argv(kept: dict[str, Any]) -> list[str]:
        with (notes.parent / f"{name}.starts").open("a") as starts:
            starts.write(json.dumps(kept) + "\n")
        return [sys.executable, "-c", CHILD, name, str(notes), json.dumps(addresses)]

    return Child(name, argv)


def pair(tmp_path: Path) -> tuple[Child, Child, Supervisor]:
    notes = tmp_path / "notes"
    receiver = child("receiver", notes, otlp_http="http://127.0.0.1:1", otlp_grpc="127.0.0.1:2")
    server = child("server", notes, http="http://127.0.0.1:9", keda="127.0.0.1:4")
    return receiver, server, Supervisor(tmp_path, receiver, server)


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not done():
            await asyncio.sleep(0.02)


async def test_sigterm_stops_the_receiver_before_the_server_and_ends_with_zero(
    tmp_path: Path,
) -> None:
    _, _, supervisor = pair(tmp_path)
    seen: list[dict[str, Any]] = []

    def on_ready(endpoints: dict[str, Any]) -> None:
        seen.append(endpoints)
        assert read_endpoints(tmp_path) == endpoints
        os.kill(os.getpid(), signal.SIGTERM)

    status = await supervisor.run(on_ready)

    assert status == 0
    assert seen[0]["otlp_grpc"] == "127.0.0.1:2"
    assert seen[0]["pid"] == os.getpid()
    assert (tmp_path / "notes").read_text().split() == ["receiver", "server"]
    assert read_endpoints(tmp_path) is None


async def test_a_killed_child_comes_back_alone_with_the_same_addresses(tmp_path: Path) -> None:
    receiver, server, supervisor = pair(tmp_path)
    ready = asyncio.Event()
    running = asyncio.create_task(supervisor.run(lambda _: ready.set()))
    await ready.wait()
    assert receiver.process is not None
    assert server.process is not None
    first, other = receiver.process.pid, server.process.pid

    receiver.process.kill()
    await until(
        lambda: receiver.process and receiver.process.pid != first and receiver.restarts == 1
    )
    await until(lambda: len((tmp_path / "receiver.starts").read_text().splitlines()) == 2)
    os.kill(os.getpid(), signal.SIGTERM)

    assert await running == 0
    assert server.process.pid == other
    again = json.loads((tmp_path / "receiver.starts").read_text().splitlines()[1])
    assert again == {"otlp_http": "http://127.0.0.1:1", "otlp_grpc": "127.0.0.1:2"}


async def test_a_child_that_ran_steadily_comes_back_without_a_longer_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenweir.supervisor.STEADY_AFTER_S", 0.0)
    receiver, _, supervisor = pair(tmp_path)
    receiver.restarts = 4
    ready = asyncio.Event()
    running = asyncio.create_task(supervisor.run(lambda _: ready.set()))
    await ready.wait()
    assert receiver.process is not None

    receiver.process.kill()
    await until(lambda: len((tmp_path / "receiver.starts").read_text().splitlines()) == 2)
    os.kill(os.getpid(), signal.SIGTERM)

    assert await running == 0
    assert receiver.restarts == 1


async def test_a_child_that_refuses_its_configuration_ends_the_start(tmp_path: Path) -> None:
    receiver, _, _ = pair(tmp_path)
    server = Child("server", lambda _: [sys.executable, "-c", "import sys; sys.exit(2)"])

    with pytest.raises(ConfigError, match="the server refused its configuration"):
        await Supervisor(tmp_path, receiver, server).run(lambda _: None)

    assert receiver.process is not None
    assert receiver.process.returncode == 0
