"""Requests played through simulated engines, as request facts instead of spans."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from stack.engine.sequence import Finished
from stack.history.plan import HistorySettings, Planned
from stack.history.player import Player
from stack.history.spans import BACK_S, Answered
from stack.wire.outcome import Label
from store.engine import Engine

Alter = Callable[[Planned, Answered, random.Random], Answered]


@dataclass
class FactWriter:
    """Takes what a `Player` says of each request; `alter` is the fault's last word on it."""

    settings: HistorySettings
    alter: Alter
    rng: random.Random
    version: Callable[[float], str]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def request(self, planned: Planned, answered: Answered) -> None:
        answered = self.alter(planned, answered, self.rng)
        first, done = answered.first_token_at, answered.finished
        self.rows.append(
            {
                "at": planned.at,
                "end": answered.end + 2 * BACK_S,
                "tenant": planned.customer.tenant,
                "route": planned.customer.path,
                "model": self.settings.model,
                "replica": "" if answered.replica is None
                else self.settings.replicas[answered.replica],
                "user_id": planned.user,
                "feature": planned.feature,
                "app_version": self.version(planned.at),
                "priority": planned.customer.priority,
                "outcome": answered.outcome.label.value,
                "outcome_reason": answered.outcome.reason.value
                if answered.outcome.label is not Label.GOOD else "",
                "ttft_ms": None if first is None or not planned.stream
                else (first + 2 * BACK_S - planned.at) * 1000,
                "prompt_tokens": planned.prompt_tokens,
                "completion_tokens": _tokens(done),
            }
        )  # fmt: skip


class FaultyPlayer(Player):
    """A player whose requests end as facts, and whose engines a fault can reach."""

    def __init__(self, settings: HistorySettings, writer: FactWriter) -> None:
        super().__init__(settings)
        self.writer: Any = writer

    def slow(self, replica: int, factor: float, begin: float, end: float) -> None:
        """Let one engine run at a fraction of its speed for a while."""
        self._at(begin, lambda now: self._slow_down(replica, factor, now))
        self._at(end, lambda now: self._slow_down(replica, 1.0, now))


def cut(answered: Answered, **changes: Any) -> Answered:
    """End a request in another way."""
    return replace(answered, finished=None, **changes)


def store_facts(engine: Engine, rows: Iterable[dict[str, Any]], start: datetime) -> int:
    """Put the rows of one run in the `facts` table in place of those of the last."""
    found = sorted(rows, key=lambda row: float(row["at"]))
    engine.execute("TRUNCATE TABLE facts")
    texts = (
        "tenant", "route", "model", "replica", "user_id", "feature", "app_version", "priority",
        "outcome", "outcome_reason",
    )  # fmt: skip
    columns: dict[str, pa.Array] = {name: pa.array([r[name] for r in found]) for name in texts}
    columns |= {
        "start": _moments(start, [r["at"] for r in found]),
        "end": _moments(start, [r["end"] for r in found]),
        "trace_id": pa.array([n.to_bytes(16, "big") for n in range(len(found))], pa.binary(16)),
        "request_id": pa.array([f"{n:016x}" for n in range(len(found))]),
        "gateway": pa.array(["gateway"] * len(found)),
        "ttft_ms": pa.array([r["ttft_ms"] for r in found], pa.float64()),
        "duration_ms": pa.array([(r["end"] - r["at"]) * 1000 for r in found], pa.float64()),
        "prompt_tokens": pa.array([r["prompt_tokens"] for r in found], pa.int64()),
        "completion_tokens": pa.array([r["completion_tokens"] for r in found], pa.int64()),
        "attempts": pa.array([1] * len(found), pa.uint16()),
        "version": pa.array([1] * len(found), pa.uint64()),
        "deleted": pa.array([0] * len(found), pa.uint8()),
    }
    engine.insert_arrow("facts", pa.table(columns))
    return len(found)


def _moments(start: datetime, seconds: list[float]) -> pa.Array:
    zero = int(start.timestamp()) * 1_000_000_000
    at = [zero + round(s * 1e9) for s in seconds]
    return pa.array(at, pa.int64()).cast(pa.timestamp("ns", "UTC"))


def _tokens(done: Finished | None) -> int | None:
    return None if done is None else done.output_tokens


def minutes_of(start: datetime, seconds: float) -> list[datetime]:
    """List the minutes of a run: those in which a source is heard."""
    return [start + timedelta(minutes=n) for n in range(round(seconds) // 60)]
