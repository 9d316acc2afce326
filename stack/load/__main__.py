"""`python -m stack.load --gateway URL --keys FILE --rate 4 --duration 5m`: the load generator.

It replays public traces with seeded tenants against a gateway and can play an incident with
`--flood`. It is open-loop: a slow system does not slow the arrivals down, as with real users.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from base.durations import parse_duration
from base.errors import ConfigError
from stack.load.generator import run
from stack.load.plan import LoadPlan, parse_flood
from stack.wire.serving import until_signalled


def _plan(argv: list[str] | None = None) -> LoadPlan:
    parser = argparse.ArgumentParser(prog="python -m stack.load", description=__doc__)
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
