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
from tokenweir.demo.config import COLD_START_S, MAX_REPLICAS, MIN_REPLICAS, SLO_FILE, write_config
from tokenweir.demo.processes import Managed, ProcessFailedError, free_port
from tokenweir.demo.steps import World, incident_steps
from tokenweir.timeline import Step, Timeline

USUAL_RATE = 3.0  # requests a second of all tenants
SETTLE_S = 25.0  # usual traffic before the incident
FLOOD = "tenant=acme,rate=9,prompt_tokens=6000,for=150s"
FLOOD_TENANT = "acme"
KEDA, OTLP_GRPC, OTLP_HTTP, HTTP = 6000, 4317, 4318, 8080

out = Console()


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
    out.print(f"[bold]tokenweir demo[/]  in {folder}", highlight=False)
    async with AsyncExitStack() as exits:
        addresses, stack = await _start(exits, folder)
        await _load_history(addresses, days, seed, stop)
        http = await exits.enter_async_context(httpx.AsyncClient(timeout=15, trust_env=False))
        world = World(http, addresses.http, stack)
        usual = Managed("load", folder / "load.log")
        exits.push_async_callback(usual.stop)
        await usual.start([*_load(stack), "--duration=forever", f"--rate={USUAL_RATE}",
                           f"--seed={seed}"])  # fmt: skip
        out.print(f"usual traffic: {USUAL_RATE:g} requests a second, four tenants", style="dim")
        await asyncio.sleep(SETTLE_S)
        world.base_replicas = await world.ready_replicas()
        passed = await _incident(exits, folder, stack, world)
        if not once:
            out.print(f"\nstill running, look around: {addresses.http}  (Ctrl-C ends)")
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
    exits.push_async_callback(stack_process.stop)
    await stack_process.start([
        "-m", "stack.up", f"--data={folder / 'stack'}", f"--otlp={addresses.otlp_http}",
        f"--control={addresses.http}", f"--engines={MIN_REPLICAS}", f"--min={MIN_REPLICAS}",
        f"--max={MAX_REPLICAS}", f"--cold-start={COLD_START_S}",
    ])  # fmt: skip
    stack = await stack_process.ready_line()
    write_config(folder / "tokenweir.yaml", stack)
    control = Managed("tokenweir up", folder / "tokenweir.log")
    exits.push_async_callback(control.stop)
    await control.start([
        "-m", "tokenweir", "up", f"--data={folder / 'data'}", f"--slo={SLO_FILE}",
        f"--config={folder / 'tokenweir.yaml'}",
        f"--http={addresses.http.removeprefix('http://')}",
        f"--otlp-http={addresses.otlp_http.removeprefix('http://')}",
        f"--otlp-grpc={addresses.otlp_grpc}", f"--keda={addresses.keda}",
    ])  # fmt: skip
    await _until_ready(control, addresses.http)
    out.print(
        f"ready in {time.monotonic() - began:.1f} s\n"
        f"  pages     [bold]{addresses.http}[/]\n"
        f"  API       {addresses.http}/api/v1/openapi.json\n"
        f"  OTLP      {addresses.otlp_http} and {addresses.otlp_grpc}\n"
        f"  gateway   {stack['gateway']}\n"
        f"  pager     {stack['pager']}",
        highlight=False,
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


async def _load_history(addresses: Addresses, days: int, seed: int, stop: asyncio.Event) -> None:
    """Send a month of spans through the real way in, and wait until all of it is judged."""
    began = time.monotonic()
    end = datetime.now(UTC) - timedelta(minutes=2)
    settings = HistorySettings(end=end, days=days, seed=seed)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=out, transient=True) as bar:
        sending = bar.add_task(f"loading {days} days of history", total=body_count(settings))
        storing = bar.add_task("storing, joining, counting", total=None)

        def sent(bodies: int) -> None:
            if stop.is_set():
                raise ProcessFailedError("stopped while history was loaded")
            bar.update(sending, completed=bodies)

        report = await asyncio.to_thread(
            send_history, history(settings), addresses.otlp_http, progress=sent
        )
        ingest = await _drained(addresses.http)
        bar.update(storing, total=1, completed=1)
    spans = sum(source["accepted"] for source in ingest["sources"])
    took = time.monotonic() - began
    out.print(
        f"loaded {days} days of history: {spans:,} spans in {took:.0f} s, "
        f"{report.bytes / 1e6:.0f} MB over OTLP",
        highlight=False,
    )


async def _drained(address: str) -> dict[str, Any]:
    async with httpx.AsyncClient(timeout=15, trust_env=False) as http:
        while True:
            found: dict[str, Any] = (await http.get(f"{address}/api/v1/ingest")).json()
            if found["log"]["lag_bytes"] == 0:
                return found
            await asyncio.sleep(0.3)


async def _incident(
    exits: AsyncExitStack, folder: Path, stack: dict[str, Any], world: World
) -> bool:
    flood = Managed("flood", folder / "flood.log")
    exits.push_async_callback(flood.stop)
    out.print(f"\n[bold]incident[/]: {FLOOD_TENANT} floods long prompts ({FLOOD})")
    timeline = Timeline(incident_steps(world), SystemClock())
    await flood.start([*_load(stack), "--duration=150s", "--rate=0", f"--flood={FLOOD}"])
    passed = await timeline.run(_say)
    out.print()
    out.print(timeline.table())
    return passed


def _load(stack: dict[str, Any]) -> list[str]:
    return ["-m", "stack.load", f"--gateway={stack['gateway']}",
            f"--keys={stack['tenant_keys_file']}", f"--model={stack['model']}"]  # fmt: skip


def _say(step: Step) -> None:
    out.print(f"  [green]{step.seen_at_s:5.0f} s[/]  {step.title}  [dim]{step.note}[/]",
              highlight=False)  # fmt: skip
