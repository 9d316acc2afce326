"""The generated view: every generation of names, every type of value, absent is never zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store.engine import Engine

Ingest = Callable[..., int]
Body = Callable[..., bytes]


@pytest.fixture
def seen(ingest: Ingest, span_body: Body, engine: Engine) -> Callable[..., dict[str, Any]]:
    """Send one span and read it back."""

    def send(attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
        fields = {"name", "kind", "status"}
        span = {key: value for key, value in more.items() if key in fields}
        rest = {key: value for key, value in more.items() if key not in fields | {"tenant"}}
        span |= {"trace": "a", "id": "b", "attributes": attributes}
        ingest([span_body(span, **rest)], tenant=more.get("tenant", ""))
        [row] = engine.rows("SELECT * FROM spans")
        return row

    return send


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [
        ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
        ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
        ("llm.token_count.prompt", "llm.token_count.completion"),
        ("ai.usage.promptTokens", "ai.usage.completionTokens"),
        ("ai.usage.inputTokens", "ai.usage.outputTokens"),
    ],
)
@pytest.mark.parametrize("kind", [int, str, float])
def test_tokens_are_read_whatever_their_name_and_type(
    prompt: str, completion: str, kind: Callable[[int], Any], seen: Callable[..., dict[str, Any]]
) -> None:
    row = seen({prompt: kind(12), completion: kind(0)})

    assert (row["prompt_tokens"], row["completion_tokens"]) == (12, 0)
    assert row["attributes"] == {}


def test_what_was_not_said_is_null_or_empty_and_never_zero(
    seen: Callable[..., dict[str, Any]],
) -> None:
    row = seen({"gen_ai.usage.input_tokens": None, "gen_ai.latency.e2e": float("nan")})

    for column in ("prompt_tokens", "e2e_ms", "ttft_ms", "streaming", "http_status"):
        assert row[column] is None
    assert (row["tenant"], row["model"]) == ("", "")


def test_a_count_that_cannot_be_read_is_absent(seen: Callable[..., dict[str, Any]]) -> None:
    assert seen({"gen_ai.usage.input_tokens": "many"})["prompt_tokens"] is None


@pytest.mark.parametrize("absurd", [-1, -(2**63), 2**63 - 1, 12.5, 1e30, float("inf"), "99" * 20])
@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("gen_ai.usage.input_tokens", "prompt_tokens"),
        ("tokenweir.gpu.count", "gpu_count"),
        ("http.response.status_code", "http_status"),
        ("tokenweir.attempt", "attempt"),
    ],
)
def test_a_count_that_cannot_be_is_absent(
    name: str, column: str, absurd: object, seen: Callable[..., dict[str, Any]]
) -> None:
    assert seen({name: absurd})[column] is None


@pytest.mark.parametrize("absurd", [-1.0, 1e300, float("inf"), float("-inf"), "-5", "nan"])
@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("gen_ai.server.time_to_first_token", "ttft_ms"),
        ("gen_ai.latency.time_in_model_decode", "decode_ms"),
        ("gen_ai.usage.cost", "reported_cost_usd"),
    ],
)
def test_a_measurement_that_cannot_be_is_absent(
    name: str, column: str, absurd: object, seen: Callable[..., dict[str, Any]]
) -> None:
    assert seen({name: absurd})[column] is None


def test_the_better_name_wins_and_the_other_stays_readable(
    seen: Callable[..., dict[str, Any]],
) -> None:
    row = seen({"llm.token_count.prompt": 7, "gen_ai.usage.input_tokens": 9})

    assert row["prompt_tokens"] == 9
    assert row["attributes"] == {"llm.token_count.prompt": "7"}


def test_times_are_milliseconds_whatever_their_unit(seen: Callable[..., dict[str, Any]]) -> None:
    row = seen({"gen_ai.latency.time_to_first_token": 0.25, "gen_ai.latency.e2e": 2})

    assert (row["ttft_ms"], row["e2e_ms"]) == (250, 2000)


def test_values_of_every_type_are_kept(seen: Callable[..., dict[str, Any]]) -> None:
    row = seen({"x": True, "y": 1.5, "z": ["only"], "list": ["a", "b"], "raw": b"\x00\xff"})

    assert row["attributes"]["x"] == "true"
    assert row["attributes"]["y"] == "1.5"
    assert row["attributes"]["z"] == "only"
    assert row["attributes"]["list"].startswith("otlp:array:")
    assert row["attributes"]["raw"] == "AP8="


def test_the_first_finish_reason_of_a_list_is_taken(seen: Callable[..., dict[str, Any]]) -> None:
    row = seen({"gen_ai.response.finish_reasons": ["stop", "length"]})

    assert row["finish_reason"] == "stop"


def test_a_span_inherits_from_its_resource_what_it_does_not_say(
    seen: Callable[..., dict[str, Any]],
) -> None:
    resource = {"tenant.id": "acme", "service.version": "2.1", "gen_ai.request.model": "llama"}
    row = seen({"gen_ai.request.model": "other"}, resource=resource)

    assert (row["tenant"], row["app_version"], row["model"]) == ("acme", "2.1", "other")


def test_the_tenant_of_a_credential_beats_what_a_client_wrote(
    seen: Callable[..., dict[str, Any]],
) -> None:
    assert seen({"tenant.id": "victim"}, tenant="acme")["tenant"] == "acme"


@pytest.mark.parametrize(
    ("layer", "given"),
    [
        ("engine", {"name": "llm_request", "scope": "vllm.tracing.otel", "kind": 2}),
        ("other", {"name": "Worker init", "scope": "vllm.v1.worker.worker_base"}),
        ("router", {"name": "POST /v1/completions", "scope": "vllm-router", "kind": 3}),
        ("other", {"name": "GET /metrics", "scope": "vllm-router", "kind": 3}),
        ("other", {"name": "POST /add_worker", "scope": "vllm-router", "kind": 2}),
        ("client", {"name": "POST /v1/chat/completions", "kind": 3}),
        ("gateway", {"name": "POST /v1/chat/completions", "kind": 2}),
        ("other", {"name": "GET /v1/models", "kind": 3}),
        ("other", {"name": "SELECT", "kind": 3}),
        ("alive", {"name": "tokenweir.alive", "attributes": {"tokenweir.role": "engine"}}),
        ("router", {"attributes": {"tokenweir.role": "router"}}),
        ("llm", {"attributes": {"gen_ai.operation.name": "chat"}}),
        ("llm", {"attributes": {"openinference.span.kind": "LLM"}}),
        ("llm", {"attributes": {"ai.operationId": "ai.streamText.doStream"}}),
        ("agent", {"attributes": {"ai.operationId": "ai.streamText"}}),
        ("agent", {"attributes": {"gen_ai.operation.name": "invoke_agent"}}),
        ("agent", {"attributes": {"traceloop.span.kind": "workflow"}}),
        ("agent", {"attributes": {"gen_ai.usage.input_tokens": 5}}),
        ("tool", {"attributes": {"gen_ai.operation.name": "execute_tool"}}),
        ("llm", {"attributes": {"gen_ai.usage.input_tokens": 5, "gen_ai.request.model": "m"}}),
        ("other", {"attributes": {"http.request.method": "POST", "url.path": "/v1/charges"},
                   "kind": 3}),
    ],
)  # fmt: skip
def test_a_span_is_put_in_its_layer(
    layer: str, given: dict[str, Any], seen: Callable[..., dict[str, Any]]
) -> None:
    attributes = given.pop("attributes", {})

    assert seen(attributes, **given)["layer"] == layer


def test_names_nobody_told_us_about_are_counted(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    ingest([span_body({"trace": "a", "id": "b", "attributes": {"weird.name": 1, "http.x": 2}})])

    rows = engine.rows("SELECT name, sum(spans) AS spans FROM unknown_names GROUP BY name")
    assert rows == [{"name": "weird.name", "spans": 1}]


def test_fields_a_client_adds_to_its_request_forge_nothing(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    body = span_body({"trace": "a", "id": "b"})
    forged = b"\x0a\x00" + b"\x12\x06victim" + b"\x20\x01" + b"\xc2\x3e\x06victim"

    seq = ingest([body + forged], tenant="acme")

    assert engine.rows("SELECT tenant, seq FROM spans") == [{"tenant": "acme", "seq": seq}]
