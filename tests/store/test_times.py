from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store.engine import Engine


@pytest.mark.parametrize("end_ms", [-5, 0])
def test_a_span_without_a_later_end_has_no_duration_and_no_time_per_token(
    engine: Engine,
    ingest: Callable[..., int],
    span_body: Callable[..., bytes],
    end_ms: int,
) -> None:
    span: dict[str, Any] = {
        "trace": "a1",
        "id": "b1",
        "name": "POST /v1/chat/completions",
        "kind": 2,
        "end_ms": end_ms,
        "attributes": {
            "tokenweir.role": "gateway",
            "gen_ai.server.time_to_first_token": 0.2,
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 20,
        },
    }

    ingest([span_body(span)])

    facts = engine.rows("SELECT duration_ms, ttft_ms, tpot_ms FROM facts FINAL")
    assert facts == [{"duration_ms": None, "ttft_ms": 200.0, "tpot_ms": None}]


def test_a_first_token_after_the_end_gives_no_time_per_token(
    engine: Engine, ingest: Callable[..., int], span_body: Callable[..., bytes]
) -> None:
    span: dict[str, Any] = {
        "trace": "a2",
        "id": "b2",
        "name": "llm_request",
        "kind": 2,
        "end_ms": 100,
        "attributes": {
            "gen_ai.latency.time_to_first_token": 0.2,
            "gen_ai.latency.e2e": 0.1,
            "gen_ai.usage.completion_tokens": 20,
        },
    }

    ingest([span_body(span)])

    assert engine.rows("SELECT tpot_ms FROM facts FINAL") == [{"tpot_ms": None}]
