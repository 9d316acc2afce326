"""Thirty days of history in half a minute: the simulator at full speed, written as OTLP.

`python -m stack.history --otlp URL` sends it to a collector; `history(settings)` yields the
bodies. Two simulated engines serve the planned requests; what the gateway and the router would
have said is written around what the engines did.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

from stack.history_plan import HistorySettings, plan
from stack.history_player import Player
from stack.history_send import send_history

BODY_S = 3 * 3600
ALIVE_S = 900


def body_count(settings: HistorySettings) -> int:
    """Say how many bodies `history` will yield."""
    return -(-round(settings.seconds) // BODY_S)


def history(settings: HistorySettings) -> Iterator[bytes]:
    """Yield export requests in order of time, one for every three hours. Same seed, same bytes."""
    player = Player(settings)
    requests = plan(settings)
    following = next(requests, None)
    for index in range(body_count(settings)):
        start, end = index * BODY_S, min((index + 1) * BODY_S, settings.seconds)
        while following is not None and following.at < end:
            player.arrive(following)
            following = next(requests, None)
        player.run_until(end)
        for moment in range(start, round(end), ALIVE_S):
            player.writer.alive(moment, min(moment + ALIVE_S, end))
        yield player.writer.body()


def main() -> None:
    """Generate history up to now and send it."""
    given = _arguments()
    settings = HistorySettings(
        end=datetime.now(UTC),
        days=given.days,
        requests=given.requests,
        seed=given.seed,
        model=given.model,
    )
    report = send_history(history(settings), given.otlp, key=given.key)
    sys.stdout.write(json.dumps(asdict(report)) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m stack.history", description="Send a month of simulated history as OTLP."
    )
    option = parser.add_argument
    option("--otlp", required=True, metavar="URL", help="OTLP/HTTP collector")
    option("--key", help="bearer key of the collector")
    option("--days", type=int, default=30)
    option("--requests", type=int, default=70_000)
    option("--seed", type=int, default=7)
    option("--model", default="tiny-llama")
    return parser.parse_args()


if __name__ == "__main__":
    main()
