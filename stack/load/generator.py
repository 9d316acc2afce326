"""Sends a plan's calls to a gateway and tallies what came of them.

It is open-loop: a slow system does not slow the arrivals down, as with real users.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from base.clock import Clock, SystemClock
from stack.load.client import Caller, Ending
from stack.load.plan import Call, LoadPlan, calls


@dataclass(slots=True)
class Tally:
    """What came of one tenant's calls."""

    sent: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    retries: int = 0
    output_tokens: int = 0
    ttft_s: list[float] = field(default_factory=list)

    def add(self, ending: Ending) -> None:
        self.endings[ending.kind] += 1
        self.statuses[ending.status] += 1
        self.retries += max(0, ending.tries - 1)
        self.output_tokens += ending.output_tokens
        if ending.ttft_s is not None:
            self.ttft_s.append(ending.ttft_s)

    def summary(self) -> dict[str, Any]:
        return {
            "sent": self.sent,
            **dict(sorted(self.endings.items())),
            "statuses": {str(k): v for k, v in sorted(self.statuses.items())},
            "retries": self.retries,
            "output_tokens": self.output_tokens,
            "ttft_p50_ms": _percentile_ms(self.ttft_s, 50),
            "ttft_p95_ms": _percentile_ms(self.ttft_s, 95),
        }


@dataclass(slots=True)
class Summary:
    """The result of a run; floods are tallied apart, as "TENANT flood"."""

    seconds: float = 0.0
    tallies: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))

    def as_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 3),
            "sent": sum(tally.sent for tally in self.tallies.values()),
            "ok": sum(tally.endings["ok"] for tally in self.tallies.values()),
            "tenants": {name: tally.summary() for name, tally in sorted(self.tallies.items())},
        }


async def run(
    plan: LoadPlan,
    *,
    stop: asyncio.Event | None = None,
    clock: Clock | None = None,
    watch: Callable[[Call, Ending], None] | None = None,
) -> Summary:
    """Send a plan's calls and wait for their ends; `stop` ends the sending early.

    `watch` is told of each call's end.
    """
    clock = clock or SystemClock()
    stop = stop or asyncio.Event()
    summary = Summary()
    began = clock.monotonic()
    caller = Caller(plan, clock.monotonic)
    tasks: set[asyncio.Task[None]] = set()

    async def play(call: Call, tally: Tally) -> None:
        ending = await caller.play(call)
        tally.add(ending)
        if watch is not None:
            watch(call, ending)

    try:
        for call in calls(plan):
            if await _waited(stop, began + call.at_s - clock.monotonic()):
                break
            tally = summary.tallies[call.tenant + " flood" if call.is_flood else call.tenant]
            if len(tasks) >= plan.most_in_flight:
                tally.endings["unsent"] += 1
                continue
            tally.sent += 1
            task = asyncio.create_task(play(call, tally))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if tasks and not stop.is_set():
            await asyncio.gather(*tasks)
    finally:
        left = list(tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        caller.close()
        summary.seconds = clock.monotonic() - began
    return summary


async def _waited(stop: asyncio.Event, seconds: float) -> bool:
    """Wait until a call is due; True when the run was stopped meanwhile."""
    if seconds > 0:
        try:
            async with asyncio.timeout(seconds):
                await stop.wait()
        except TimeoutError:
            pass
    return stop.is_set()


def _percentile_ms(seconds: list[float], percent: int) -> float | None:
    if len(seconds) < 2:
        return round(seconds[0] * 1000, 1) if seconds else None
    return round(statistics.quantiles(seconds, n=100, method="inclusive")[percent - 1] * 1000, 1)
