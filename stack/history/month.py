"""Thirty days of history in half a minute: the simulator at full speed, written as OTLP.

Two simulated engines serve the planned requests; what the gateway and the router would
have said is written around what the engines did.
"""

from __future__ import annotations

from collections.abc import Iterator

from stack.history.plan import HistorySettings, plan
from stack.history.player import Player

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
