"""`tokenweir replay`: recorded OTLP into a running instance, or into one that runs for it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from base.clock import SystemClock
from base.errors import ConfigError
from base.outbound import http_client
from base.tls import TlsSettings
from collector.replay import Progress as ReplayProgress
from collector.replay import ReplayResult, Sender, replay
from tokenweir.datadir import last_run, read_endpoints
from tokenweir.settings import load_settings
from tokenweir.up import make_supervisor, overrides_of

STORED_WITHIN_S = 120.0
SEND_S = 60.0
out = Console()
err = Console(stderr=True)


async def run_replay(
    paths: Sequence[Path],
    *,
    to: str | None,
    data: Path | None,
    config: Path | None,
    slo: Sequence[Path],
    key: str | None,
    tls: ssl.SSLContext | None = None,
) -> int:
    """Send, wait until it is stored, report; 1 if a file could not be read."""
    if (to is None) == (data is None):
        raise ConfigError("say where to: --to http://127.0.0.1:4318, or --data DIR (one of them)")
    if to is not None:
        result = await asyncio.to_thread(_send, paths, _otlp_address(to, key, tls), key, tls)
    else:
        assert data is not None  # noqa: S101
        async with _instance(data, config, slo) as endpoints:
            result = await asyncio.to_thread(_send, paths, endpoints["otlp_http"], key, tls)
    _report(result)
    return 1 if result.failed else 0


@asynccontextmanager
async def _instance(
    data: Path, config: Path | None, slo: Sequence[Path]
) -> AsyncIterator[dict[str, Any]]:
    """Use the instance that runs on `data`, or run one on free ports for as long as needed.

    It is run with the configuration and the SLOs of the last `up` on that folder, unless others
    are given, and judges nothing: old telemetry must neither page nor act.
    """
    running = read_endpoints(data)
    if running is not None:
        yield running
        return
    err.print(f"no instance runs on {data}: running one for the replay", style="dim")
    free: dict[str, Any] = dict.fromkeys(("http", "otlp_http", "otlp_grpc", "keda"), "127.0.0.1:0")
    free["tls"] = dict.fromkeys(TlsSettings.model_fields)  # nobody else is to find it
    before = last_run(data)
    given = {**free, "data": data, "slo_paths": list(slo) or before.slo_paths, "judging": False}
    config = config or before.config
    supervisor = make_supervisor(load_settings(config, overrides_of(given)), config, given)
    ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    running_task = asyncio.create_task(supervisor.run(ready.set_result))
    both: set[asyncio.Future[Any]] = {running_task, ready}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        running_task.result()
        raise ConfigError(f"the instance on {data} ended before it was ready")
    try:
        yield ready.result()
    finally:
        supervisor.stop()  # the server takes the whole log in before it ends
        await running_task


def _otlp_address(to: str, key: str | None, tls: ssl.SSLContext | None) -> str:
    """Accept the address of the pages as well: an instance knows its OTLP address."""
    with http_client(total_s=5, tls=tls) as http:
        try:
            answer = http.get(f"{to.rstrip('/')}/api/v1/endpoints", headers=_headers(key))
            return str(answer.json()["otlp_http"]) if answer.is_success else to
        except (httpx.HTTPError, ValueError, KeyError):
            return to


def _send(
    paths: Sequence[Path], address: str, key: str | None, tls: ssl.SSLContext | None
) -> ReplayResult:
    columns = (
        TextColumn("replay"),
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[spans]:,} spans"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("replay", total=None, spans=0)

        def show(at: ReplayProgress) -> None:
            bar.update(task, total=at.bytes_total, completed=at.bytes_done, spans=at.spans)

        http = http_client(total_s=SEND_S, tls=tls)
        result = replay(paths, Sender(address, SystemClock(), key=key, http=http), show)
        _wait_until_stored(address, key, tls)
    return result


def _wait_until_stored(address: str, key: str | None, tls: ssl.SSLContext | None) -> None:
    """Acknowledged is on disk; return when it can be asked for, too."""
    deadline = time.monotonic() + STORED_WITHIN_S
    with http_client(total_s=5, tls=tls) as http:
        while time.monotonic() < deadline:
            try:
                answer = http.get(f"{address.rstrip('/')}/status", headers=_headers(key))
                waiting = answer.json()["log"]["waiting_bytes"]
            except (httpx.HTTPError, ValueError, KeyError, TypeError):
                return  # a collector in front, or another OTLP receiver: it does not say
            if not waiting:
                return
            time.sleep(0.1)
    err.print("sent, but not yet stored: the server is behind", style="yellow")


def _headers(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _report(result: ReplayResult) -> None:
    for skipped in result.skipped:
        err.print(f"skipped {skipped.path}: {skipped.reason}", style="dim", highlight=False)
    for failed in result.failed:
        err.print(f"[bold red]failed[/] {failed.path}: {failed.reason}", highlight=False)
    refused = f", {result.rejected:,} refused as invalid" if result.rejected else ""
    out.print(f"{result.spans:,} spans from {result.files:,} files{refused}", highlight=False)
