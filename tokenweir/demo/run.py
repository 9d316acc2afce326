"""`tokenweir demo`: start everything, load a month, play an incident, watch what is done."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from base.clock import SystemClock
from tokenweir.demo.config import FLOOD, USUAL_RATE, Flood
from tokenweir.demo.console import out, progress
from tokenweir.demo.past import past_is_judged, send_past
from tokenweir.demo.processes import Managed, ProcessFailedError
from tokenweir.demo.start import Running, start
from tokenweir.demo.steps import World, incident_steps
from tokenweir.timeline import Timeline

USUAL_FOR_S = 60.0  # usual traffic before the incident, and of that
SETTLE_S = 25.0  # after the history is judged


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
        out.print("[dim]stopping[/]")
        playing.cancel()
    try:
        return await playing
    except asyncio.CancelledError:
        return 130
    except ProcessFailedError as error:
        out.print(f"[bold red]{error}[/]")
        return 1


async def _play(data: Path | None, once: bool, days: int, seed: int, stop: asyncio.Event) -> int:
    folder = (data or Path(tempfile.mkdtemp(prefix="tokenweir-demo-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    out.print(f"[bold]tokenweir demo[/]  [dim]logs and data in {folder}[/]")
    async with AsyncExitStack() as exits:
        running = await start(exits, folder)
        sent = await send_past(running, days, seed, stop)
        usual = Managed("load", folder / "load.log")
        exits.push_async_callback(usual.stop)
        await usual.start(
            [*_load(running), "--duration=forever", f"--rate={USUAL_RATE}", f"--seed={seed}"]
        )
        calls_since = time.monotonic()
        await past_is_judged(running, sent)
        http = await exits.enter_async_context(httpx.AsyncClient(timeout=15, trust_env=False))
        world = World(http, running.http, running.stack)
        await _settle(calls_since)
        world.base_replicas = await world.ready_replicas()
        passed = await _incident(exits, folder, running, world)
        out.print(f"[dim]{time.monotonic() - began:.0f} s in all, start and history included[/]")
        if not once:
            out.print(f"\nStill running, look around: [bold]{running.http}[/]  (Ctrl-C ends)")
            await stop.wait()
    return 0 if passed else 1


async def _settle(calls_since: float) -> None:
    """Let the loop learn what is usual."""
    now = time.monotonic()
    seconds = max(SETTLE_S, calls_since + USUAL_FOR_S - now)
    said = f"usual traffic, {USUAL_RATE:g} requests a second of five tenants"
    with progress() as bar:
        usual = bar.add_task(said, total=seconds)
        while (passed := time.monotonic() - now) < seconds:
            bar.update(usual, completed=passed)
            await asyncio.sleep(0.25)
    out.print(f"[green]✓[/] {said}")


async def _incident(exits: AsyncExitStack, folder: Path, running: Running, world: World) -> bool:
    flood = Managed("flood", folder / "flood.log")
    exits.push_async_callback(flood.stop)
    out.print(f"\n[bold]Incident[/]: {_said(FLOOD)}. Nobody tells tokenweir.")
    timeline = Timeline(incident_steps(world), SystemClock(), poll_s=1.0)
    await flood.start([
        *_load(running), f"--duration={FLOOD.for_s}s", "--rate=0", "--retries=0",
        f"--flood={FLOOD.option}",
    ])  # fmt: skip
    with out.status("") as status:
        passed = await timeline.run(
            lambda step: timeline.show(step, out),
            lambda: status.update(
                f"[dim]{timeline.elapsed_s:.0f} s  until {', '.join(timeline.missing())}[/]"
            ),
        )
    out.print()
    out.print(timeline.table())
    return passed


def _said(flood: Flood) -> str:
    what = f"{flood.rate} prompts a second of {flood.prompt_tokens:,} tokens"
    return f"for {flood.for_s} s {flood.tenant} sends {what}"


def _load(running: Running) -> list[str]:
    stack = running.stack
    return ["-m", "stack.load", f"--gateway={stack['gateway']}",
            f"--keys={stack['tenant_keys_file']}", f"--model={stack['model']}"]  # fmt: skip
