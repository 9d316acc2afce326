from __future__ import annotations

import asyncio
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from base.clock import SystemClock
from base.errors import Retryable
from stack.engine.settings import EngineSettings, parse_arguments
from stack.fleet.launchers import Command, External, InProcess, simulated_command
from stack.fleet.replicas import Fleet, FleetSettings, Phase, RouterAdmin

TEMPLATE = replace(EngineSettings(), model="tiny", speed=50)


async def until(true: Any, within_s: float = 60) -> None:
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.02)


async def test_an_engine_in_process_answers_and_stops(bench: Any) -> None:
    engine = await InProcess(TEMPLATE).launch("r7")

    answer = await bench.chat(engine.url, "hi", max_tokens=2)
    await engine.stop()

    assert answer.json()["usage"]["completion_tokens"] == 2
    with pytest.raises(httpx.ConnectError):
        await bench.http.get(f"{engine.url}/health")


async def test_external_engines_are_handed_out_and_taken_back(bench: Any) -> None:
    _, first = await bench.engine()
    sick, second = await bench.engine()
    sick.healthy = False
    launcher = External([f"{first}/", second], bench.http)

    engine = await launcher.launch("r0")
    with pytest.raises(Retryable, match="no engine is free"):
        await launcher.launch("r1")
    await engine.stop()

    assert engine.url == first
    assert (await launcher.launch("r2")).url == first


async def test_a_command_that_exits_or_never_answers_is_an_error(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stack.fleet.launchers._ASK_EVERY_S", 0.02)
    dies = Command(f"{sys.executable} -c 'raise SystemExit(3)' {{port}}", bench.http, 20)
    hangs = Command(f"{sys.executable} -c 'import time; time.sleep(60)'", bench.http, 0.1)

    with pytest.raises(Retryable, match="exited with 3"):
        await dies.launch("r0")
    with pytest.raises(Retryable, match=r"no /health in 0\.1 s"):
        await hangs.launch("r0")


def test_the_command_of_a_simulated_engine_names_its_replica_and_port() -> None:
    words = shlex.split(simulated_command(replace(TEMPLATE, otlp_url="http://127.0.0.1:4318")))

    assert words[:3] == [sys.executable, "-m", "stack.engine"]
    assert {"{port}", "{replica}", "http://127.0.0.1:4318"} <= set(words)


def test_a_simulated_engine_is_told_where_the_key_is_and_not_the_key(tmp_path: Path) -> None:
    template = replace(
        TEMPLATE, otlp_url="http://127.0.0.1:4318", otlp_key_file=tmp_path / "otlp-key"
    )
    (tmp_path / "otlp-key").write_text("twk_secret")

    command = simulated_command(template)

    words = [word.replace("{port}", "1") for word in shlex.split(command)]
    assert parse_arguments(words[3:]).otlp_key_file == template.otlp_key_file
    assert "twk_secret" not in command


@pytest.mark.slow
async def test_a_killed_engine_process_is_replaced_and_the_others_drain(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stack.fleet.replicas._AFTER_FAILURE_S", 0.05)
    router_url = await bench.router()
    launcher = Command(simulated_command(TEMPLATE), bench.http, 60)
    fleet = Fleet(
        FleetSettings(desired=1, least=1, most=2),
        launcher,
        RouterAdmin(router_url, bench.http),
        SystemClock(),
    )
    async with fleet.running():
        await until(lambda: fleet.count(Phase.READY) == 1)
        killed = fleet.document()["replicas"][0]["url"]
        os.kill(_pid_listening(int(killed.rpartition(":")[2])), 9)

        await until(lambda: [r["id"] for r in fleet.document()["replicas"]] == ["r1"])
        await until(lambda: fleet.count(Phase.READY) == 1)
        answer = await bench.chat(router_url, "hi", max_tokens=2)

    assert answer.status_code == 200
    assert "ended by itself" in fleet.document()["last_error"]


def _pid_listening(port: int) -> int:
    """Find the child of ours whose command line has the port."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"stack.engine" in words and str(port).encode() in words:
                return int(entry.name)
    raise AssertionError(f"nobody was started on port {port}")


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_real_vllm_serves_behind_the_router(bench: Any) -> None:
    command = os.environ.get("TOKENWEIR_VLLM_COMMAND")
    if not command:
        pytest.skip("set TOKENWEIR_VLLM_COMMAND to 'vllm serve MODEL --port {port} …'")
    router_url = await bench.router()
    fleet = Fleet(
        FleetSettings(desired=1, least=1, most=1),
        Command(command, bench.http, 600),
        RouterAdmin(router_url, bench.http),
        SystemClock(),
    )
    async with fleet.running():
        await until(lambda: fleet.count(Phase.READY) == 1, within_s=600)
        model = (await bench.http.get(f"{router_url}/v1/models")).json()["data"][0]["id"]
        url = await bench.gateway(router_url)
        answer = await bench.chat(url, "Say hi", model=model, max_tokens=4, stream=True)

    span = await bench.gateway_spans.only()
    assert answer.text.endswith("[DONE]\n\n")
    assert span.attributes["tokenweir.outcome"] == "good"
    assert span.attributes["gen_ai.usage.output_tokens"] == 4
