"""Facts for tests: rows as the store keeps them, and a way to put them there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from store.engine import Engine

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NS = 1_000_000_000

_TEXT = (
    "tenant", "route", "model", "replica", "user_id", "feature", "app_version", "priority",
    "gateway", "outcome_reason", "usage_source", "finish_reason", "conversation_id", "task_id",
    "eval_name", "eval_label",
)  # fmt: skip
_FLOATS = (
    "duration_ms", "ttft_ms", "tpot_ms", "queue_ms", "prefill_ms", "decode_ms", "engine_s",
    "reported_cost_usd", "itl_p95_ms", "eval_score",
)  # fmt: skip
_INTS = (
    "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "tool_calls",
    "tool_errors",
)  # fmt: skip


def nanoseconds(moment: datetime) -> int:
    delta = moment - datetime.fromtimestamp(0, UTC)
    return (delta.days * 86_400 + delta.seconds) * NS + delta.microseconds * 1000


def fact(at: datetime | int, number: int = 0, **fields: Any) -> dict[str, Any]:
    """Make a fact; `at` is its start, a datetime or nanoseconds since the epoch."""
    row: dict[str, Any] = {
        "start": at if isinstance(at, int) else nanoseconds(at),
        "request_id": f"{number:016x}",
        "tenant": "acme",
        "route": "/v1/chat/completions",
        "outcome": "good",
        "version": 1,
        "deleted": 0,
    }
    return row | fields


def put(engine: Engine, facts: Sequence[Mapping[str, Any]]) -> None:
    if not facts:
        return
    columns: dict[str, pa.Array] = {
        "start": _times(facts, "start"),
        "end": _times([{"end": f["start"]} | f for f in facts], "end"),
        "trace_id": pa.array(
            [bytes.fromhex(f["request_id"]).rjust(16, b"\0") for f in facts], pa.binary(16)
        ),
        "request_id": pa.array([f["request_id"] for f in facts]),
        "outcome": pa.array([f["outcome"] for f in facts]),
        "http_status": pa.array([f.get("http_status") for f in facts], pa.int32()),
        "attempts": pa.array([f.get("attempts", 1) for f in facts], pa.uint16()),
        "streaming": pa.array([f.get("streaming") for f in facts], pa.bool_()),
        "version": pa.array([f["version"] for f in facts], pa.uint64()),
        "deleted": pa.array([f["deleted"] for f in facts], pa.uint8()),
    }
    columns |= {n: pa.array([f.get(n, "") for f in facts], pa.string()) for n in _TEXT}
    columns |= {n: pa.array([f.get(n) for f in facts], pa.float64()) for n in _FLOATS}
    columns |= {n: pa.array([f.get(n) for f in facts], pa.int64()) for n in _INTS}
    engine.insert_arrow("facts", pa.table(columns))


def dirty(facts: Iterable[Mapping[str, Any]]) -> list[datetime]:
    """Name the ten-second buckets of facts, as the store does after a batch."""
    seconds = {f["start"] // (10 * NS) * 10 for f in facts}
    return [datetime.fromtimestamp(at, UTC) for at in sorted(seconds)]


def alive(engine: Engine, moments: Iterable[datetime], layer: str = "gateway") -> None:
    """Say that a source sent something at these moments."""
    at = sorted(moments)
    minutes = [moment.replace(second=0, microsecond=0) for moment in at]
    engine.insert_arrow(
        "source_minutes",
        pa.table(
            {
                "minute": pa.array(minutes, pa.timestamp("s", "UTC")),
                "layer": pa.array([layer] * len(at)),
                "service": pa.array([f"tokenweir-{layer}"] * len(at)),
                "instance": pa.array(["0"] * len(at)),
                "first": pa.array(at, pa.timestamp("ns", "UTC")),
                "last": pa.array(at, pa.timestamp("ns", "UTC")),
            }
        ),
    )


def _times(facts: Sequence[Mapping[str, Any]], name: str) -> pa.Array:
    return pa.array([f[name] for f in facts], pa.int64()).cast(pa.timestamp("ns", "UTC"))
