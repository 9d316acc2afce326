"""Load a month of history through the real way in."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from stack.history.month import body_count, history
from stack.history.plan import HistorySettings
from stack.history.send import send_history
from tokenweir.demo.console import out, progress
from tokenweir.demo.processes import ProcessFailedError
from tokenweir.demo.start import Running

REQUESTS_A_DAY = 2300  # one every 38 seconds
LAG_BYTES = 100_000  # less waits for the store: about a second of the usual traffic
STUCK_S = 60.0
_END = timedelta(minutes=2)  # before now: what happens live must not meet its own history


@dataclass(frozen=True, slots=True)
class Sent:
    """What was acknowledged; the store may still be at it."""

    days: int
    bytes: int
    began: float


async def send_past(running: Running, days: int, seed: int, stop: asyncio.Event) -> Sent:
    """Send it and return when all of it is acknowledged."""
    began = time.monotonic()
    settings = HistorySettings(
        end=datetime.now(UTC) - _END, days=days, seed=seed, requests=days * REQUESTS_A_DAY
    )
    with progress() as bar:
        sending = bar.add_task(f"sending {days} days of history", total=body_count(settings))

        def sent(bodies: int) -> None:
            if stop.is_set():
                raise ProcessFailedError("stopped while history was sent")
            bar.update(sending, completed=bodies)

        report = await asyncio.to_thread(
            send_history, history(settings), running.otlp_http, progress=sent
        )
    return Sent(days, report.bytes, began)


async def past_is_judged(running: Running, sent: Sent) -> None:
    """Wait until what was sent is stored, joined and counted."""
    async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
        with progress() as bar:
            storing = bar.add_task("storing, joining, judging", total=sent.bytes)
            least, moved = sent.bytes + 1, time.monotonic()
            while (left := (found := await _ingest(http, running))["log"]["lag_bytes"]) > LAG_BYTES:
                bar.update(storing, completed=max(0, sent.bytes - left))
                if left < least:
                    least, moved = left, time.monotonic()
                elif time.monotonic() - moved > STUCK_S:
                    why = found["log"]["error"] or "no reason is given"
                    raise ProcessFailedError(f"the store does not take the history: {why}")
                await asyncio.sleep(0.3)
    spans = sum(source["accepted"] for source in found["sources"])
    took = time.monotonic() - sent.began
    out.print(
        f"[green]✓[/] {sent.days} days of history in {took:.0f} s: {spans:,} spans, "
        f"{sent.bytes / 1e6:.0f} MB of OTLP"
    )


async def _ingest(http: httpx.AsyncClient, running: Running) -> dict[str, Any]:
    answer = await http.get(f"{running.http}/api/v1/ingest")
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found
