"""The columns of a request fact that a filter may name, and how the engine reads each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a value is. Numbers are doubles on both sides, so that both sides agree."""

    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class FactColumn:
    """A column; `sql` yields NULL where the fact is unknown ('' in the table for text)."""

    name: str
    kind: Kind
    sql: str


_TEXT = (
    "tenant", "route", "model", "replica", "user_id", "feature", "app_version", "priority",
    "gateway", "outcome_reason", "usage_source", "finish_reason", "conversation_id", "task_id",
    "eval_name", "eval_label",
)  # fmt: skip
_NUMBERS = (
    "http_status", "duration_ms", "ttft_ms", "tpot_ms", "queue_ms", "prefill_ms", "decode_ms",
    "engine_s", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens",
    "reported_cost_usd", "attempts", "itl_p95_ms", "eval_score", "tool_calls", "tool_errors",
)  # fmt: skip

COLUMNS: Mapping[str, FactColumn] = {
    "outcome": FactColumn("outcome", Kind.TEXT, "toString(outcome)"),
    "streaming": FactColumn("streaming", Kind.FLAG, "(streaming != 0)"),
    **{name: FactColumn(name, Kind.TEXT, f"nullIf({name}, '')") for name in _TEXT},
    **{name: FactColumn(name, Kind.NUMBER, f"toFloat64({name})") for name in _NUMBERS},
}

OUTCOMES = frozenset({"good", "bad", "excluded"})

GROUP_COLUMNS = (
    "tenant", "route", "model", "replica", "user_id", "feature", "app_version", "priority",
)  # fmt: skip
"""What an SLO may be grouped by."""
