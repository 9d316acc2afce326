"""What came in, who is alive, how far the data reach, and what is dropped when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from store.engine import Engine
from store.ingest_stats import sender_counts
from store.retention import newest_event, retain
from store.settings import StoreSettings
from store.sources import watermarks

Ingest = Callable[..., int]
Body = Callable[..., bytes]
START = datetime.fromtimestamp(1_796_000_000, UTC)


def engine_span(number: int, **more: Any) -> dict[str, Any]:
    return {"trace": f"{number:x}", "id": f"{number:x}", "name": "llm_request", "kind": 2} | more


def test_accepted_duplicate_and_late_spans_are_counted_per_sender(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    hour = 3_600_000
    fresh = span_body(*(engine_span(n) for n in range(1, 4)))
    old = span_body(engine_span(9, start_ms=-hour, end_ms=-hour + 5))
    ingest([fresh, fresh], source="a")
    ingest([fresh, old], source="b", tenant="acme")

    counted = {
        (c.source, c.tenant): (c.accepted, c.duplicate, c.late) for c in sender_counts(engine)
    }
    assert counted == {("a", ""): (6, 3, 0), ("b", "acme"): (4, 3, 1)}


def test_a_watermark_is_the_end_of_a_sources_newest_event_until_now(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    ingest([
        span_body(engine_span(1, end_ms=400), engine_span(2, start_ms=200_000, end_ms=201_000),
                  service="vllm", instance="r0"),
    ])  # fmt: skip

    [before] = watermarks(engine, START + timedelta(seconds=150))
    [after] = watermarks(engine, START + timedelta(hours=1))
    assert before.last == START + timedelta(milliseconds=400)
    assert after.last == START + timedelta(seconds=201)
    assert (after.layer, after.service, after.instance) == ("engine", "vllm", "r0")
    assert watermarks(engine, START - timedelta(days=1)) == []


def test_an_alive_span_speaks_for_every_minute_it_covers(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    quarter = {
        "trace": "a", "id": "b", "name": "tokenweir.alive", "end_ms": 900_000,
        "attributes": {
            "tokenweir.role": "engine", "tokenweir.gpu.type": "h100", "tokenweir.gpu.count": 4,
        },
    }  # fmt: skip
    ingest([span_body(quarter, service="vllm", instance="r0")] * 2)

    [row] = engine.rows(
        "SELECT uniqExact(minute) AS minutes, any(layer) AS layer FROM source_minutes"
    )
    assert row == {"minutes": 16, "layer": "engine"}
    assert engine.rows("SELECT role, gpu_type, gpu_count FROM alive FINAL") == [
        {"role": "engine", "gpu_type": "h100", "gpu_count": 4}
    ]
    assert engine.rows("SELECT count() AS n FROM facts FINAL") == [{"n": 0}]


def test_age_is_counted_from_the_newest_event_not_from_today(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    day = 86_400_000
    ingest([span_body(*(engine_span(n, start_ms=-n * 40 * day, end_ms=-n * 40 * day + 5)
                        for n in range(3)))])  # fmt: skip
    far = START + timedelta(days=3000)

    newest = newest_event(engine, far)
    assert newest is not None
    retain(engine, newest, StoreSettings())
    assert engine.rows("SELECT count() AS n FROM facts FINAL") == [{"n": 1}]
    assert engine.rows("SELECT sum(requests) AS n FROM rollup_1h FINAL") == [{"n": 3}]


def test_the_identity_of_a_request_comes_from_outside_in_and_from_the_agent_around_it(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    agent = {
        "trace": "1",
        "id": "a",
        "attributes": {
            "gen_ai.operation.name": "invoke_agent",
            "user.id": "ann",
            "tokenweir.task.id": "t-1",
        },
    }
    gateway = {
        "trace": "1",
        "id": "b",
        "parent": "a",
        "kind": 2,
        "name": "POST /v1/messages",
        "attributes": {
            "tokenweir.role": "gateway",
            "tenant.id": "acme",
            "http.response.status_code": 200,
            "http.route": "/v1/messages",
        },
    }
    engine_part = engine_span(1, id="c", parent="b")
    ingest([
        span_body(agent, service="planner"),
        span_body(gateway, service="tokenweir-gateway", instance="gw-0"),
        span_body(engine_part, service="vllm", instance="r7",
                  resource={"gen_ai.request.model": "llama"}),
    ])  # fmt: skip

    [fact] = engine.rows(
        "SELECT tenant, user_id, task_id, route, model, replica, outcome, sources FROM facts FINAL"
    )
    assert fact == {
        "tenant": "acme", "user_id": "ann", "task_id": "t-1", "route": "/v1/messages",
        "model": "llama", "replica": "r7", "outcome": "good",
        "sources": ["engine:vllm/r7", "gateway:tokenweir-gateway/gw-0"],
    }  # fmt: skip


def test_what_nobody_said_is_default_or_unknown(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    ingest([span_body(engine_span(1))])

    [fact] = engine.rows(
        "SELECT tenant, route, ttft_ms, prompt_tokens, http_status, streaming FROM facts FINAL"
    )
    assert fact == {
        "tenant": "default", "route": "llm_request", "ttft_ms": None, "prompt_tokens": None,
        "http_status": None, "streaming": None,
    }  # fmt: skip
