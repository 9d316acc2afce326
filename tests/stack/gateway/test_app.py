"""Every way a request can end leaves exactly one span that says so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from stack.gateway.tenants import Tenant, from_keys
from stack.registry.catalog import Catalog
from stack.registry.entries import ModelEntry

KEY = "sk-acme-secret-0123456789abcdef"
CHAT = "/v1/chat/completions"


def ending(span: Any) -> tuple[str, str, int]:
    a = span.attributes
    return (
        a["tokenweir.outcome"],
        a["tokenweir.outcome_reason"],
        a["http.response.status_code"],
    )


async def test_a_streamed_answer_is_good_and_its_span_has_tokens_and_ttft(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    answer = await bench.chat(url, "say 5", stream=True, user="u1", headers={"x-feature": "search"})

    span = await bench.gateway_spans.only()
    assert answer.text.count("data: ") == 5 + 3  # role, five tokens, finish, [DONE]; no usage event
    assert answer.text.endswith("data: [DONE]\n\n")
    assert ending(span) == ("good", "ok", 200)
    assert span.name == "POST /v1/chat/completions"
    a = span.attributes
    assert a["tenant.id"] == "acme"
    assert a["user.id"] == "u1"
    assert a["feature"] == "search"
    assert a["tokenweir.priority"] == "interactive"
    assert a["gen_ai.request.model"] == a["gen_ai.response.model"] == "tiny"
    assert a["gen_ai.usage.input_tokens"] == 7
    assert a["gen_ai.usage.output_tokens"] == 5
    assert a["gen_ai.usage.cache_read.input_tokens"] == 4
    assert a["gen_ai.response.finish_reasons"] == ("stop",)
    assert a["gen_ai.request.stream"] is True
    assert 0 < a["gen_ai.server.time_to_first_token"] < 5
    assert 0 <= a["tokenweir.inter_token_latency.p95"] < 5
    assert "error.type" not in a
    assert engine.bodies[0]["stream_options"] == {"include_usage": True}


async def test_a_client_that_asks_for_usage_gets_the_usage_event(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    answer = await bench.chat(url, "say 2", stream=True, stream_options={"include_usage": True})

    assert '"completion_tokens":2' in answer.text


async def test_a_whole_answer_is_good_and_has_no_ttft(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    answer = await bench.chat(url, "say 4")

    span = await bench.gateway_spans.only()
    assert answer.json()["usage"]["completion_tokens"] == 4
    assert ending(span) == ("good", "ok", 200)
    assert "gen_ai.server.time_to_first_token" not in span.attributes


@pytest.mark.parametrize(
    ("prompt", "stream", "expected"),
    [
        ("filtered 1", False, ("excluded", "content_filter", 200)),
        ("filtered 1", True, ("excluded", "content_filter", 200)),
        ("status 400", False, ("excluded", "client_error", 400)),
        ("status 500", False, ("bad", "upstream_error", 500)),
        ("status 503", True, ("bad", "capacity", 503)),
        ("status 504", False, ("bad", "timeout", 504)),
        ("refused-stream", True, ("bad", "capacity", 503)),
        ("cut 2", True, ("bad", "stream_cut", 200)),
    ],
)
async def test_what_the_engine_did_decides_the_outcome(
    bench: Any, prompt: str, stream: bool, expected: tuple[str, str, int]
) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    answer = await bench.chat(url, prompt, stream=stream)

    span = await bench.gateway_spans.only()
    assert ending(span) == expected
    assert answer.status_code == expected[2]
    assert (span.status.status_code is StatusCode.ERROR) == (expected[0] == "bad")


async def test_a_cut_stream_ends_with_an_error_event_and_without_done(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    answer = await bench.chat(url, "cut 2", stream=True)

    last = json.loads(answer.text.strip().rpartition("data: ")[2])
    assert last["error"]["code"] == "stream_cut"
    assert "[DONE]" not in answer.text


async def test_an_unknown_key_is_401_and_excluded(bench: Any) -> None:
    url = await bench.gateway("http://127.0.0.1:1")

    answer = await bench.chat(url, "say", key="sk-wrong")

    span = await bench.gateway_spans.only()
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert ending(span) == ("excluded", "client_error", 401)
    assert "tenant.id" not in span.attributes


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"{}", b'{"model":"tiny"}', b'{"model":3,"messages":[1]}']
)
async def test_a_body_that_cannot_be_read_is_400_and_excluded(bench: Any, body: bytes) -> None:
    url = await bench.gateway("http://127.0.0.1:1")

    answer = await bench.http.post(
        url + CHAT, headers={"authorization": f"Bearer {KEY}"}, content=body
    )

    assert answer.status_code == 400
    assert ending(await bench.gateway_spans.only()) == ("excluded", "client_error", 400)


async def test_a_body_over_the_limit_is_413(bench: Any) -> None:
    url = await bench.gateway("http://127.0.0.1:1", max_body_bytes=100)

    answer = await bench.chat(url, "x" * 200)

    assert answer.status_code == 413


async def test_an_unregistered_model_is_404_and_excluded(bench: Any) -> None:
    catalog = Catalog(None, bench.http)
    catalog.entries = {"other": ModelEntry(name="other")}
    url = await bench.gateway("http://127.0.0.1:1", catalog=catalog)

    answer = await bench.chat(url, "say")

    assert answer.json()["error"]["code"] == "model_not_found"
    assert ending(await bench.gateway_spans.only()) == ("excluded", "client_error", 404)


async def test_over_the_requests_limit_is_429_with_headers_and_excluded(bench: Any) -> None:
    _, engine_url = await bench.engine()
    tenants = from_keys([(KEY, Tenant("acme", requests_per_minute=1))])
    url = await bench.gateway(engine_url, tenants=tenants)

    first = await bench.chat(url, "say 1")
    second = await bench.chat(url, "say 1")

    assert first.headers["x-ratelimit-remaining-requests"] == "0"
    assert second.status_code == 429
    assert second.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(second.headers["retry-after"]) <= 60
    assert second.headers["x-ratelimit-limit-requests"] == "1"
    assert second.headers["x-ratelimit-reset-requests"] in {"60s", "1m0s", "59s"}
    assert [ending(s) for s in await bench.gateway_spans.first(2)] == [
        ("good", "ok", 200),
        ("excluded", "quota", 429),
    ]


async def test_a_client_that_leaves_early_is_excluded_and_the_engine_stops(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await bench.chat(url, "slow", stream=True)

    span = await bench.gateway_spans.only()
    assert ending(span) == ("excluded", "client_gone", 499)
    async with asyncio.timeout(5):
        while engine.abandoned == 0:
            await asyncio.sleep(0.005)


async def test_a_client_that_leaves_past_its_patience_is_bad(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url, patience_s=0.0)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await bench.chat(url, "slow", stream=True)

    assert ending(await bench.gateway_spans.only()) == ("bad", "client_gone", 499)


async def test_a_client_that_stops_a_running_stream_is_good(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    async with bench.http.stream(
        "POST",
        url + CHAT,
        headers={"authorization": f"Bearer {KEY}"},
        json={
            "model": "tiny",
            "stream": True,
            "messages": [{"role": "user", "content": "pause 3"}],
        },
    ) as answer:
        async for text in answer.aiter_text():
            if " 2" in text:
                break

    span = await bench.gateway_spans.only()
    assert ending(span) == ("good", "client_gone", 200)
    assert "gen_ai.usage.output_tokens" not in span.attributes  # nobody counted: not zero


async def test_the_deadline_before_the_first_token_is_504(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    answer = await bench.chat(url, "slow", stream=True, headers={"x-request-timeout": "0.05"})

    assert answer.status_code == 504
    assert ending(await bench.gateway_spans.only()) == ("bad", "timeout", 504)


async def test_the_deadline_in_the_middle_of_a_stream_cuts_it(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url, request_timeout_s=0.15)

    answer = await bench.chat(url, "pause 2", stream=True)

    assert '"code":"timeout"' in answer.text
    assert ending(await bench.gateway_spans.only()) == ("bad", "timeout", 200)


async def test_a_router_that_is_away_is_502(bench: Any) -> None:
    url = await bench.gateway("http://127.0.0.1:1")

    answer = await bench.chat(url, "say")

    assert answer.status_code == 502
    assert ending(await bench.gateway_spans.only()) == ("bad", "upstream_error", 502)


async def test_more_requests_than_places_and_waiting_room_is_429_capacity(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    url = await bench.gateway(engine_url, places=1, waiting=0)
    first = asyncio.create_task(bench.chat(url, "slow"))
    async with asyncio.timeout(5):
        while not engine.bodies:
            await asyncio.sleep(0.005)

    second = await bench.chat(url, "say 1")
    engine.release.set()

    assert second.status_code == 429
    assert second.headers["retry-after"] == "1"
    assert (await first).status_code == 200
    assert [ending(s) for s in await bench.gateway_spans.first(2)] == [
        ("bad", "capacity", 429),
        ("good", "ok", 200),
    ]


async def test_an_unsampled_caller_still_gets_a_span_in_its_trace(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)
    trace_id = "0af7651916cd43dd8448eb211c80319c"

    await bench.chat(url, "say 1", headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-00"})

    span = await bench.gateway_spans.only()
    assert f"{span.context.trace_id:032x}" == trace_id
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    sent = engine.headers[0]["traceparent"]
    assert sent == f"00-{trace_id}-{span.context.span_id:016x}-01"


async def test_no_key_reaches_the_engine_a_span_or_a_log(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    engine, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    await bench.chat(url, "say 1")
    await bench.chat(url, "say 1", key="sk-almost-right")

    assert len(await bench.gateway_spans.first(2)) == 2
    for text in (
        *(span.to_json() for span in bench.gateway_spans.all()),
        *(json.dumps(headers) for headers in engine.headers),
        *(r.getMessage() for r in caplog.records if not r.name.startswith(("httpcore", "asyncio"))),
    ):
        assert "sk-" not in text


async def test_models_need_a_key_and_come_from_the_registry(bench: Any) -> None:
    catalog = Catalog(None, bench.http)
    catalog.entries = {"tiny": ModelEntry(name="tiny")}
    url = await bench.gateway("http://127.0.0.1:1", catalog=catalog)

    refused = await bench.http.get(f"{url}/v1/models")
    listed = await bench.http.get(f"{url}/v1/models", headers={"authorization": f"Bearer {KEY}"})

    assert refused.status_code == 401
    assert [m["id"] for m in listed.json()["data"]] == ["tiny"]


async def test_counters_agree_with_the_spans(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    await bench.chat(url, "say 3", stream=True)
    await bench.chat(url, "status 500")

    text = (await bench.http.get(f"{url}/metrics")).text
    counted = 'tokenweir_gateway_requests_total{outcome="%s",reason="%s",tenant="acme"} 1.0'
    assert counted % ("good", "ok") in text
    assert counted % ("bad", "upstream_error") in text
    assert 'tokenweir_gateway_tokens_total{kind="completion",tenant="acme"} 3.0' in text


async def test_a_broken_connection_to_the_router_is_tried_once_more(bench: Any) -> None:
    heads: list[bytes] = []

    async def router(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        if len(heads) == 2:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(router, "127.0.0.1", 0)
    url = await bench.gateway(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    answer = await bench.chat(url, "say 1")
    server.close()

    assert answer.status_code == 200
    assert [b"x-tokenweir-retries-left: 1" in head for head in heads] == [True, False]
    assert b"x-tokenweir-retries-left: 0" in heads[1]
    assert len(await bench.gateway_spans.first(1)) == 1  # one logical request, counted once


async def test_a_caller_may_step_back_to_batch_but_not_ahead(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    tenants = from_keys(
        [(KEY, Tenant("acme")), ("sk-batch-0123456789", Tenant("initech", priority="batch"))]
    )
    url = await bench.gateway(engine_url, tenants=tenants, engine_priority=True)

    await bench.chat(url, "say 1")
    await bench.chat(url, "say 1", headers={"x-priority": "batch"})
    await bench.chat(url, "say 1", key="sk-batch-0123456789", headers={"x-priority": "interactive"})

    spans = await bench.gateway_spans.first(3)
    assert [s.attributes["tokenweir.priority"] for s in spans] == ["interactive", "batch", "batch"]
    assert [body["priority"] for body in engine.bodies] == [0, 10, 10]


async def test_completions_are_served_like_chat(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url)

    answer = await bench.http.post(
        f"{url}/v1/completions",
        headers={"x-api-key": KEY},
        json={"model": "tiny", "prompt": "say 2"},
    )

    span = await bench.gateway_spans.only()
    assert answer.status_code == 200
    assert span.name == "POST /v1/completions"
    assert span.attributes["gen_ai.operation.name"] == "text_completion"


async def test_a_fault_of_our_own_is_500_bad_and_keeps_its_span(bench: Any) -> None:
    catalog: Any = Catalog(None, bench.http)
    catalog.knows = None  # calling it fails
    url = await bench.gateway("http://127.0.0.1:1", catalog=catalog)

    answer = await bench.chat(url, "say 1")

    span = await bench.gateway_spans.only()
    assert answer.status_code == 500
    assert ending(span) == ("bad", "internal_error", 500)
    assert span.attributes["error.type"] == "TypeError"
