"""Every captured vLLM scenario: as many facts as HTTP requests left traces, and their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store.engine import Engine

Scenario = Callable[[str], tuple[list[bytes], list[dict[str, Any]]]]

# vllm-router has no server span for /v1/messages and unknown paths and drops the caller's trace:
# the request leaves two traces that nothing joins.
TORN_BY_THE_ROUTER = {"router-shapes": 1, "router-errors": 1}
# Sent without a traceparent, or a malformed one: a root span of its own. "Unsampled": no span.
ROOTS = {"none", "bad"}

SCENARIOS = (
    "abort-grpc", "dp2-grpc", "errors-grpc", "long-grpc", "outage", "prefix-grpc", "priority-grpc",
    "router-abort", "router-errors", "router-kill", "router-shapes", "router2-prefix",
    "shapes-grpc", "stall-grpc",
)  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_gives_one_fact_per_request_that_left_a_trace(
    name: str, scenario: Scenario, ingest: Callable[..., int], engine: Engine
) -> None:
    bodies, seen = scenario(name)
    ingest(bodies)

    facts = engine.rows("SELECT lower(hex(trace_id)) AS trace FROM facts FINAL")
    traces = {row["trace"] for row in engine.rows("SELECT lower(hex(trace_id)) trace FROM spans")}
    traced = [line for line in seen if line.get("trace_id") in traces]
    roots = [line for line in seen if line.get("trace") in ROOTS]
    torn = TORN_BY_THE_ROUTER.get(name, 0)
    assert len(facts) == len(traced) + len(roots) + torn
    assert {line["trace_id"] for line in traced} <= {row["trace"] for row in facts}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_tokens_and_first_tokens_of_a_scenario_are_the_engines(
    name: str, scenario: Scenario, ingest: Callable[..., int], engine: Engine
) -> None:
    bodies, seen = scenario(name)
    ingest(bodies)

    facts = {row["trace"]: row for row in engine.rows(
        "SELECT lower(hex(trace_id)) AS trace, prompt_tokens, completion_tokens, ttft_ms, "
        "usage_source, conflicts FROM facts FINAL"
    )}  # fmt: skip
    first = {row["trace"]: row["ttft"] for row in engine.rows(
        "SELECT lower(hex(trace_id)) AS trace, min(ttft_ms) AS ttft FROM spans "
        "WHERE layer = 'engine' GROUP BY trace"
    )}  # fmt: skip
    for line in seen:
        fact = facts.get(line.get("trace_id", ""))
        usage = line.get("usage")
        if fact is None or fact["trace"] not in first:
            continue
        assert fact["ttft_ms"] == pytest.approx(first[fact["trace"]], abs=2)
        if usage:
            expected = (
                usage.get("prompt_tokens", usage.get("input_tokens")),
                usage.get("completion_tokens", usage.get("output_tokens")),
            )
            assert (fact["prompt_tokens"], fact["completion_tokens"]) == expected, line["name"]
            assert fact["usage_source"] == "engine"


def test_requests_that_the_engine_never_shows_appear_by_their_callers_and_routers_spans(
    scenario: Scenario, ingest: Callable[..., int], engine: Engine
) -> None:
    bodies, seen = scenario("router-abort")
    ingest(bodies)

    given_up = {line["trace_id"] for line in seen if line.get("aborted")}
    found = engine.rows(
        "SELECT lower(hex(trace_id)) AS trace, outcome, outcome_reason, prompt_tokens "
        "FROM facts FINAL WHERE outcome_reason != 'ok'"
    )
    assert {row["trace"] for row in found} == given_up
    assert {row["outcome_reason"] for row in found} <= {"client_gone", "client_stopped"}


@pytest.mark.parametrize(
    "name", ["startup-grpc", "startup-failed-grpc", "startup-dp2", "startup-compile-grpc"]
)
def test_the_start_of_an_engine_is_no_request(
    name: str, scenario: Scenario, ingest: Callable[..., int], engine: Engine
) -> None:
    bodies, _ = scenario(name)
    ingest(bodies)

    spans = engine.rows("SELECT countIf(name = 'llm_request') AS n FROM spans")
    facts = engine.rows("SELECT count() AS n FROM facts FINAL")
    assert facts == spans


def test_a_killed_replicas_requests_are_one_each_with_their_tries(
    scenario: Scenario, ingest: Callable[..., int], engine: Engine
) -> None:
    bodies, _ = scenario("router-kill")
    ingest(bodies)

    rows = engine.rows(
        "SELECT count() AS requests, countIf(attempts > 1) AS retried, sum(attempts) AS tries, "
        "countIf(outcome = 'good') AS good FROM facts FINAL"
    )
    assert rows == [{"requests": 107, "retried": 3, "tries": 110, "good": 107}]
