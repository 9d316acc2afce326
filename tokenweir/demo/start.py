"""Start the reference stack and the control plane, and join them."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tokenweir.demo.config import (
    MAX_REPLICAS,
    MIN_REPLICAS,
    SLO_FILE,
    STACK_OPTIONS,
    write_config,
)
from tokenweir.demo.console import out
from tokenweir.demo.processes import Managed, ProcessFailedError, free_port

KEDA, OTLP_GRPC, OTLP_HTTP, HTTP = 6000, 4317, 4318, 8080
READY_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Running:
    """What serves now: where the control plane is, and what the stack said of itself."""

    http: str
    otlp_http: str
    otlp_grpc: str
    keda: str
    stack: dict[str, Any]


async def start(exits: AsyncExitStack, folder: Path) -> Running:
    """Start both; `exits` ends them, the stack first."""
    began = time.monotonic()
    http, otlp_http = f"127.0.0.1:{free_port(HTTP)}", f"127.0.0.1:{free_port(OTLP_HTTP)}"
    otlp_grpc, keda = f"127.0.0.1:{free_port(OTLP_GRPC)}", f"127.0.0.1:{free_port(KEDA)}"
    (folder / "stack").mkdir(exist_ok=True)
    reference = Managed("reference stack", folder / "stack.log")
    control = Managed("tokenweir up", folder / "tokenweir.log")
    exits.push_async_callback(control.stop)  # the last to end: it takes in what the stack reports
    exits.push_async_callback(reference.stop)
    with out.status("starting gateway, router and engines"):
        await reference.start([
            "-m", "stack.up", f"--data={folder / 'stack'}", f"--otlp=http://{otlp_http}",
            f"--control=http://{http}", *STACK_OPTIONS,
        ])  # fmt: skip
        stack = await reference.ready_line()
    with out.status("starting the control plane"):
        write_config(folder / "tokenweir.yaml", stack)
        await control.start([
            "-m", "tokenweir", "up", f"--data={folder / 'data'}", f"--slo={SLO_FILE}",
            f"--config={folder / 'tokenweir.yaml'}", f"--http={http}",
            f"--otlp-http={otlp_http}", f"--otlp-grpc={otlp_grpc}", f"--keda={keda}",
        ])  # fmt: skip
        await _until_ready(control, f"http://{http}")
    running = Running(f"http://{http}", f"http://{otlp_http}", otlp_grpc, keda, stack)
    out.print(
        f"[green]✓[/] ready in {time.monotonic() - began:.0f} s: control plane, gateway, router, "
        f"{MIN_REPLICAS} of {MAX_REPLICAS} simulated engines\n"
        f"    pages     [bold]{running.http}[/]\n"
        f"    API       {running.http}/api/v1/openapi.json\n"
        f"    OTLP      {running.otlp_http} and {otlp_grpc}\n"
        f"    gateway   {stack['gateway']}\n"
        f"    pager     {stack['pager']}/pages"
    )
    return running


async def _until_ready(control: Managed, address: str) -> None:
    end = time.monotonic() + READY_WITHIN_S
    async with httpx.AsyncClient(trust_env=False) as http:
        while time.monotonic() < end:
            if not control.is_running:
                raise ProcessFailedError(f"tokenweir ended: see {control.log}")
            try:
                if (await http.get(f"{address}/-/ready")).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise ProcessFailedError(f"tokenweir is not ready after a minute: see {control.log}")
