"""`tokenweir demo`: start everything, load a month, play an incident, watch what is done."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from base.clock import SystemClock
from stack.history.month import body_count, history
from stack.history.plan import HistorySettings
from stack.history.send import send_history
from tokenweir.demo.config import (
    MAX_REPLICAS,
    MIN_REPLICAS,
    SLO_FILE,
    STACK_OPTIONS,
    write_config,
)
from tokenweir.demo.processes import Managed, ProcessFailedError, free_port
from tokenweir.demo.steps import FLOOD_TENANT, World, incident_steps
from tokenweir.timeline import Timeline

REQUESTS_A_DAY = 2300  # of history: one every 38 seconds
USUAL_RATE = 3.0  # requests a second of all tenants
USUAL_FOR_S = 60.0  # usual traffic before the incident, and of that
SETTLE_S = 25.0  # after the history is judged
FLOOD_S = 120
FLOOD = f"tenant={FLOOD_TENANT},rate=8,prompt_tokens=12000,output_tokens=16,for={FLOOD_S}s"
LAG_BYTES = 100_000  # less waits for the store: about a second of the usual traffic
KEDA, OTLP_GRPC, OTLP_HTTP, HTTP = 6000, 4317, 4318, 8080


def _console() -> Console:
    """Write at least 100 columns into a pipe or a file, where nobody wraps lines."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=100)


out = _console()


@dataclass(frozen=True, slots=True)
class Addresses:
    http: str
    otlp_http: str
    otlp_grpc: str
    keda: str


async def run_demo(*, data: Path | None, once: bool, days: int, seed: int) -> int:
    """Play it; 0 when every step was seen in time. Without `once` it then goes on until Ctrl-C."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    playing = asyncio.create_task(_play(data, once, days, seed, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({playing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not playing.done():
        playing.cancel()
    try:
        return await playing
    except asyncio.CancelledError:
        out.print("stopped", style="dim")
        return 130
    except ProcessFailedError as error:
        out.print(f"[bold red]{error}[/]", highlight=False)
        return 1


async def _play(data: Path | None, once: bool, days: int, seed: int, stop: asyncio.Event) -> int:
    folder = (data or Path(tempfile.mkdtemp(prefix="tokenweir-demo-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    out.print(f"[bold]tokenweir demo[/]  [dim]logs and data in {folder}[/]")
    async with AsyncExitStack() as exits:
        addresses, stack = await _start(exits, folder)
        sent = await _send_history(addresses, days, seed, stop)
        usual = Managed("load", folder / "load.log")
        exits.push_async_callback(usual.stop)
        await usual.start([*_load(stack), "--duration=forever", f"--rate={USUAL_RATE}",
                           f"--seed={seed}"])  # fmt: skip
        calls_since = time.monotonic()
        await _stored(addresses, days, sent)
        http = await exits.enter_async_context(httpx.AsyncClient(timeout=15, trust_env=False))
        world = World(http, addresses.http, stack)
        await _settle(calls_since)
        world.base_replicas = await world.ready_replicas()
        passed = await _incident(exits, folder, stack, world)
        took = time.monotonic() - began
        out.print(f"[dim]{took:.0f} s from the first process to the last step[/]")
        if not once:
            out.print(f"\nStill running, look around: [bold]{addresses.http}[/]  (Ctrl-C ends)")
            await stop.wait()
    return 0 if passed else 1


async def _start(exits: AsyncExitStack, folder: Path) -> tuple[Addresses, dict[str, Any]]:
    began = time.monotonic()
    addresses = Addresses(
        http=f"http://127.0.0.1:{free_port(HTTP)}",
        otlp_http=f"http://127.0.0.1:{free_port(OTLP_HTTP)}",
        otlp_grpc=f"127.0.0.1:{free_port(OTLP_GRPC)}",
        keda=f"127.0.0.1:{free_port(KEDA)}",
    )
    (folder / "stack").mkdir(exist_ok=True)
    stack_process = Managed("reference stack", folder / "stack.log")
    control = Managed("tokenweir up", folder / "tokenweir.log")
    exits.push_async_callback(control.stop)  # the last to end: it takes in what the stack reports
    exits.push_async_callback(stack_process.stop)
    await stack_process.start([
        "-m", "stack.up", f"--data={folder / 'stack'}", f"--otlp={addresses.otlp_http}",
        f"--control={addresses.http}", f"--engines={MIN_REPLICAS}", f"--min={MIN_REPLICAS}",
        f"--max={MAX_REPLICAS}", *STACK_OPTIONS,
    ])  # fmt: skip
    stack = await stack_process.ready_line()
    write_config(folder / "tokenweir.yaml", stack)
    await control.start([
        "-m", "tokenweir", "up", f"--data={folder / 'data'}", f"--slo={SLO_FILE}",
        f"--config={folder / 'tokenweir.yaml'}",
        f"--http={addresses.http.removeprefix('http://')}",
        f"--otlp-http={addresses.otlp_http.removeprefix('http://')}",
        f"--otlp-grpc={addresses.otlp_grpc}", f"--keda={addresses.keda}",
    ])  # fmt: skip
    await _until_ready(control, addresses.http)
    out.print(
        f"[green]✓[/] ready in {time.monotonic() - began:.0f} s: "
        f"control plane, gateway, router, {MIN_REPLICAS} simulated engines\n"
        f"    pages     [bold]{addresses.http}[/]\n"
        f"    API       {addresses.http}/api/v1/openapi.json\n"
        f"    OTLP      {addresses.otlp_http} and {addresses.otlp_grpc}\n"
        f"    gateway   {stack['gateway']}\n"
        f"    pager     {stack['pager']}"
    )
    return addresses, stack


async def _until_ready(control: Managed, address: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        for _ in range(600):
            if not control.is_running:
                raise ProcessFailedError(f"tokenweir ended: see {control.log}")
            try:
                if (await http.get(f"{address}/-/ready")).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise ProcessFailedError(f"tokenweir is not ready after a minute: see {control.log}")


@dataclass(frozen=True, slots=True)
class _Sent:
    began: float
    bytes: int


async def _send_history(addresses: Addresses, days: int, seed: int, stop: asyncio.Event) -> _Sent:
    """Send a month of spans through the real way in."""
    began = time.monotonic()
    end = datetime.now(UTC) - timedelta(minutes=2)
    settings = HistorySettings(end=end, days=days, seed=seed, requests=days * REQUESTS_A_DAY)
    with _progress() as bar:
        sending = bar.add_task(f"sending {days} days of history", total=body_count(settings))

        def sent(bodies: int) -> None:
            if stop.is_set():
                raise ProcessFailedError("stopped while history was sent")
            bar.update(sending, completed=bodies)

        report = await asyncio.to_thread(
            send_history, history(settings), addresses.otlp_http, progress=sent
        )
    return _Sent(began, report.bytes)


async def _stored(addresses: Addresses, days: int, sent: _Sent) -> None:
    """Wait until what was sent is stored, joined and judged."""
    async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
        with _progress() as bar:
            storing = bar.add_task("storing, joining, judging", total=None)
            while True:
                ingest = (await http.get(f"{addresses.http}/api/v1/ingest")).json()
                left = ingest["log"]["lag_bytes"]
                if left < LAG_BYTES:
                    break
                bar.update(storing, total=sent.bytes, completed=max(0, sent.bytes - left))
                await asyncio.sleep(0.3)
    spans = sum(source["accepted"] for source in ingest["sources"])
    out.print(
        f"[green]✓[/] {days} days of history: {spans:,} spans, {sent.bytes / 1e6:.0f} MB of OTLP, "
        f"in {time.monotonic() - sent.began:.0f} s"
    )


async def _settle(calls_since: float) -> None:
    """Let the loop learn what is usual."""
    now = time.monotonic()
    seconds = max(SETTLE_S, calls_since + USUAL_FOR_S - now)
    with _progress() as bar:
        usual = bar.add_task(
            f"usual traffic: {USUAL_RATE:g} requests a second, five tenants", total=seconds
        )
        while (passed := time.monotonic() - now) < seconds:
            bar.update(usual, completed=passed)
            await asyncio.sleep(0.25)
    out.print(f"[green]✓[/] usual traffic: {USUAL_RATE:g} requests a second of five tenants")


def _progress() -> Progress:
    columns = (TextColumn("  {task.description}"), BarColumn(), TaskProgressColumn(),
               TimeElapsedColumn())  # fmt: skip
    return Progress(*columns, console=out, transient=True)


async def _incident(
    exits: AsyncExitStack, folder: Path, stack: dict[str, Any], world: World
) -> bool:
    flood = Managed("flood", folder / "flood.log")
    exits.push_async_callback(flood.stop)
    out.print(f"\n[bold]Incident[/]: for {FLOOD_S} s {FLOOD_TENANT} sends 8 requests a second of "
              "12,000 tokens each. Nobody tells the control plane.")  # fmt: skip
    timeline = Timeline(incident_steps(world), SystemClock())
    await flood.start([*_load(stack), f"--duration={FLOOD_S}s", "--rate=0", "--retries=0",
                       f"--flood={FLOOD}"])  # fmt: skip
    with out.status("watching") as status:
        passed = await timeline.run(
            lambda step: out.print(timeline.line(step)),
            lambda: status.update(f"[dim]{timeline.elapsed_s:.0f} s, waiting for:[/] "
                                  f"{', '.join(timeline.missing())}"),
        )  # fmt: skip
    out.print()
    out.print(timeline.table())
    return passed


def _load(stack: dict[str, Any]) -> list[str]:
    return ["-m", "stack.load", f"--gateway={stack['gateway']}",
            f"--keys={stack['tenant_keys_file']}", f"--model={stack['model']}"]  # fmt: skip
