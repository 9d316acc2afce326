"""The typed columns of a span that the vocabulary fills, and nothing else.

`collector/vocabulary.yaml` says which attribute names feed each of them; a test holds the two
lists together. Units are in the names. Text is '' and a number is NULL where nothing was said.
"""

from __future__ import annotations

NAME = "LowCardinality(String)"  # a closed or slowly growing set of values
TEXT = "String"  # ids: as many values as spans
COUNT = "Nullable(Int64)"
REAL = "Nullable(Float64)"
FLAG = "Nullable(Bool)"

VOCABULARY_COLUMNS: dict[str, str] = {
    # who and what
    "role": NAME,
    "tenant": NAME,
    "route": NAME,
    "http_method": NAME,
    "url_path": NAME,
    "user_id": TEXT,
    "feature": NAME,
    "app_version": NAME,
    "priority": NAME,
    "gateway": NAME,
    "replica": NAME,
    "server_address": NAME,
    "server_port": NAME,
    "provider": NAME,
    "operation": NAME,
    "model": NAME,
    "response_model": NAME,
    "llm_request_id": TEXT,
    "conversation_id": TEXT,
    "task_id": TEXT,
    "agent_name": NAME,
    "tool_name": NAME,
    # how it ended
    "http_status": COUNT,
    "outcome": NAME,
    "outcome_reason": NAME,
    "error_type": NAME,
    "finish_reason": NAME,
    "decision": TEXT,
    "attempt": COUNT,
    "streaming": FLAG,
    # tokens and money
    "prompt_tokens": COUNT,
    "cached_tokens": COUNT,
    "cache_write_tokens": COUNT,
    "completion_tokens": COUNT,
    "reasoning_tokens": COUNT,
    "total_tokens": COUNT,
    "reported_cost_usd": REAL,
    # times
    "ttft_ms": REAL,
    "queue_ms": REAL,
    "prefill_ms": REAL,
    "decode_ms": REAL,
    "inference_ms": REAL,
    "e2e_ms": REAL,
    "latency_ms": REAL,
    "itl_p95_ms": REAL,
    # how good the answer was
    "eval_name": NAME,
    "eval_score": REAL,
    "eval_label": NAME,
    # the machine behind it
    "gpu_type": NAME,
    "gpu_count": COUNT,
}
