"""The load generator: `python -m stack.loadgen --gateway URL --keys FILE --rate 4 --duration 5m`.

It replays public traces with seeded tenants against a gateway and can play an incident with
`--flood`. It is open-loop: a slow system does not slow the arrivals down, as with real users.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from base.clock import Clock, SystemClock
from base.durations import parse_duration
from base.errors import ConfigError
from stack.load_client import Caller, Ending
from stack.load_plan import Call, LoadPlan, calls, parse_flood
from stack.serving import until_signalled


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


def _plan(argv: list[str] | None = None) -> LoadPlan:
    parser = argparse.ArgumentParser(prog="python -m stack.loadgen", description=__doc__)
    option = parser.add_argument
    option("--gateway", required=True, metavar="URL")
    option("--keys", type=Path, metavar="FILE", help="JSON: tenant -> API key")
    option("--tenant", action="append", default=[], metavar="NAME=KEY[=WEIGHT]")
    option("--rate", type=float, default=2.0, help="requests a second beside floods")
    option("--duration", default="60s", help="such as 90s or 10m; 'forever' until SIGTERM")
    option("--seed", type=int, default=1)
    option("--model", default="tiny-llama")
    option(
        "--source",
        choices=("azure2023-conv", "azure2023-code", "mooncake"),
        default="azure2023-conv",
    )
    option("--retries", type=int, default=2)
    option(
        "--flood",
        action="append",
        default=[],
        metavar="tenant=acme,rate=6,prompt_tokens=6000,for=60s,after=30s",
        help="an incident; may be given more than once",
    )
    given = parser.parse_args(argv)
    keys: dict[str, str] = json.loads(given.keys.read_text("utf-8")) if given.keys else {}
    weights: dict[str, float] = {}
    for text in given.tenant:
        name, key, weight = _tenant(text)
        keys[name] = key
        if weight is not None:
            weights[name] = weight
    forever = given.duration == "forever"
    return LoadPlan(
        gateway_url=given.gateway,
        keys=keys,
        rate=given.rate,
        duration_s=None if forever else parse_duration(given.duration).total_seconds(),
        seed=given.seed,
        model=given.model,
        source=given.source,
        floods=[parse_flood(text) for text in given.flood],
        weights=weights,
        retries=given.retries,
    )


def _tenant(text: str) -> tuple[str, str, float | None]:
    parts = text.split("=")
    if len(parts) not in {2, 3} or not all(parts):
        raise ConfigError(f"tenant {text!r} is not NAME=KEY or NAME=KEY=WEIGHT")
    try:
        return parts[0], parts[1], float(parts[2]) if len(parts) == 3 else None
    except ValueError as error:
        raise ConfigError(f"tenant {parts[0]!r}: weight {parts[2]!r} is not a number") from error


async def _main(plan: LoadPlan) -> Mapping[str, Any]:
    stop = asyncio.Event()

    async def stop_when_signalled() -> None:
        await until_signalled()
        stop.set()

    watcher = asyncio.create_task(stop_when_signalled())
    try:
        return (await run(plan, stop=stop)).as_json()
    finally:
        watcher.cancel()


def main() -> None:
    """Play a plan and print what came of it as JSON."""
    sys.stdout.write(json.dumps(asyncio.run(_main(_plan()))) + "\n")


if __name__ == "__main__":
    main()
