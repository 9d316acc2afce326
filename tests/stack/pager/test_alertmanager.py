"""A real Alertmanager, configured as in examples/compose, pages the pager."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from base.clock import SystemClock
from stack.pager.app import Pager

EXAMPLE = Path(__file__).parents[3] / "examples" / "compose" / "alertmanager.yml"
PAGER = "http://stack:8003"
ALERT = {
    "labels": {"alertname": "chat-ttft", "slo": "chat-ttft", "severity": "page"},
    "annotations": {"summary": "the budget burns"},
}

pytestmark = [
    pytest.mark.binary,
    pytest.mark.skipif(
        shutil.which("prometheus-alertmanager") is None,
        reason="needs Debian's prometheus-alertmanager",
    ),
]


@asynccontextmanager
async def alertmanager(config: Path, http: httpx.AsyncClient) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = await asyncio.create_subprocess_exec(
        "prometheus-alertmanager",
        *(f"--config.file={config}", f"--storage.path={config.parent / 'kept'}"),
        *(f"--web.listen-address={address}", "--cluster.listen-address=", "--log.level=error"),
        env={**os.environ, "GOMAXPROCS": "1"},
    )
    try:
        await until(lambda: is_ready(f"http://{address}", http))
        yield f"http://{address}"
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 10)


async def is_ready(url: str, http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get(f"{url}/-/ready")).is_success
    except httpx.TransportError:
        return False


async def until(true: Any) -> None:
    async with asyncio.timeout(20):
        while not await true():
            await asyncio.sleep(0.05)


async def test_the_pager_takes_what_alertmanager_sends_for_pagerduty(
    bench: Any, tmp_path: Path
) -> None:
    pager = Pager([], SystemClock())
    text = EXAMPLE.read_text()
    assert PAGER in text
    config = tmp_path / "alertmanager.yml"
    config.write_text(
        text.replace(PAGER, await bench.serve(pager.app)).replace(
            "group_by: [slo]", "group_by: [slo], group_wait: 100ms"
        )
    )

    async with alertmanager(config, bench.http) as url:
        (await bench.http.post(f"{url}/api/v2/alerts", json=[ALERT])).raise_for_status()

        async def paged() -> bool:
            return bool(pager.pages)

        await until(paged)

    [received] = pager.pages
    assert pager.counts == {"accepted": 1}
    assert (received.page.kind, received.page.status) == ("pagerduty", "trigger")
    assert received.page.severity == "critical"
    assert "chat-ttft" in received.page.summary
