"""The simulated engine over real HTTP, against what a real vLLM was seen to say."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from stack.engine.scheduler import EngineLimits
from stack.engine.server import EngineServer, serve
from stack.engine.settings import EngineSettings, parse_arguments

GOLDEN = Path(__file__).parents[2] / "golden" / "vllm"
FAST = EngineSettings(speed=50, stream_interval_s=0.02, handover_s=0.0, drain_s=5)
CHAT = "/v1/chat/completions"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def run(
    scenario: Callable[[EngineServer, httpx.AsyncClient], Awaitable[Any]],
    settings: EngineSettings = FAST,
) -> Any:
    async def play() -> Any:
        server = await serve(settings)
        try:
            async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
                return await scenario(server, client)
        finally:
            await server.close()

    return asyncio.run(play())


def ask(content: str = "how high is the water now", **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"model": "tiny-llama", "messages": messages, "max_tokens": 24, **more}


def events(text: str) -> list[Any]:
    lines = [line[6:] for line in text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_a_whole_answer_has_text_usage_and_finish_reason() -> None:
    async def scenario(_: EngineServer, client: httpx.AsyncClient) -> Any:
        return (await client.post(CHAT, json=ask(ignore_eos=True))).json()

    answer = run(scenario)

    choice = answer["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(choice["message"]["content"]) == 24 * 4
    assert answer["usage"]["prompt_tokens"] == 8
    assert answer["usage"]["completion_tokens"] == 24
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{16}", answer["id"])


def test_a_stream_names_the_role_first_then_tokens_then_usage() -> None:
    async def scenario(_: EngineServer, client: httpx.AsyncClient) -> Any:
        body = ask(stream=True, stream_options={"include_usage": True}, ignore_eos=True)
        answer = await client.post(CHAT, json=body)
        assert answer.headers["content-type"].startswith("text/event-stream")
        return events(answer.text)

    first, *middle, last, usage = run(scenario)

    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    deltas = [event["choices"][0]["delta"]["content"] for event in [*middle, last]]
    assert len("".join(deltas)) == 24 * 4
    assert last["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 24


def test_completions_take_text_and_token_ids_in_batches_and_n() -> None:
    async def scenario(_: EngineServer, client: httpx.AsyncClient) -> Any:
        body = {"model": "tiny-llama", "prompt": [[1, 2, 3], [4]], "n": 2, "ignore_eos": True}
        return (await client.post("/v1/completions", json=body)).json()

    answer = run(scenario)

    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 4
    assert answer["usage"]["completion_tokens"] == 4 * 16


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (CHAT, ask(model="nope"), 404, "The model `nope` does not exist"),
        (CHAT, {"model": "tiny-llama"}, 400, "Field required"),
        (CHAT, ask(max_tokens=-1), 400, "max_tokens must be at least 1, got -1."),
        (CHAT, ask(temperature=-2), 400, "temperature must be non-negative, got -2.0."),
        (CHAT, ask(top_p=1.5), 400, "top_p must be in (0, 1], got 1.5."),
        (CHAT, ask(n=0), 400, "n must be at least 1, got 0."),
        (CHAT, ask("word " * 40_000), 400, "maximum context length is 32768 tokens"),
        (CHAT, ask(max_tokens=100_000), 400, "cannot be greater than max_model_len=32768"),
        (CHAT, ask(priority=3), 400, "priority scheduling policy is not enabled"),
        ("/v1/completions", {"model": "tiny-llama", "prompt": ""}, 400, "must be provided"),
    ],
)
def test_a_bad_request_is_refused_in_vllm_words(
    path: str, body: dict[str, Any], status: int, message: str
) -> None:
    async def scenario(_: EngineServer, client: httpx.AsyncClient) -> Any:
        return await client.post(path, json=body)

    answer = run(scenario)

    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"] == status


def test_a_full_queue_is_503_or_for_streams_an_error_event_under_200() -> None:
    settings = replace(
        FAST, speed=1, limits=EngineLimits(max_num_seqs=1), max_num_queued_reqs=1, handover_s=0.5
    )

    async def scenario(_: EngineServer, client: httpx.AsyncClient) -> Any:
        waiting = asyncio.create_task(client.post(CHAT, json=ask(max_tokens=1000)))
        while (await client.get("/load")).json()["server_load"] == 0:
            await asyncio.sleep(0.01)
        whole = await client.post(CHAT, json=ask())
        stream = await client.post(CHAT, json=ask(stream=True))
        metrics = (await client.get("/metrics")).text
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return whole, stream, metrics

    whole, stream, metrics = run(scenario, settings)

    assert whole.status_code == 503
    assert stream.status_code == 200
    assert events(stream.text)[0]["error"]["code"] == 503
    assert (
        'admission_rejections_total{model_name="tiny-llama",reason="max_num_queued_reqs"} 2.0'
        in (metrics)
    )


def test_a_client_that_leaves_ends_its_request_without_span_or_metric(
    collector: Any, eventually: Any
) -> None:
    async def scenario() -> Any:
        async with collector() as sink:
            server = await serve(replace(FAST, speed=1, otlp_url=sink.url))
            async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
                async with client.stream(
                    "POST", CHAT, json=ask(stream=True, max_tokens=5000, ignore_eos=True)
                ) as answer:
                    await anext(answer.aiter_bytes())
                    assert server.in_flight == 1
                await eventually(lambda: server.in_flight == 0)
                metrics = (await client.get("/metrics")).text
            await server.close()
            return list(sink.spans("llm_request")), metrics

    spans, metrics = asyncio.run(scenario())

    assert spans == []
    assert 'finished_reason="abort",model_name="tiny-llama"} 0.0' in metrics
    assert (
        'vllm:e2e_request_latency_seconds_count{engine="0",model_name="tiny-llama"} 0.0' in metrics
    )
    assert 'http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 1.0' in (
        metrics
    )


def test_the_span_is_vllms_span(collector: Any) -> None:
    golden = json.loads((GOLDEN / "llm_request.json").read_text())

    async def scenario() -> Any:
        async with collector() as sink:
            server = await serve(replace(FAST, otlp_url=sink.url, instance="r7"))
            async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
                body = ask(temperature=0.8, top_p=0.95, ignore_eos=True)
                headers = {"traceparent": PARENT, "x-request-id": "client-chosen"}
                await client.post(CHAT, json=body, headers=headers)
            await server.close()
            return list(sink.spans("llm_request")), list(sink.spans("tokenweir.alive"))

    [(resource, scope, span)], alive = asyncio.run(scenario())

    def shape(attributes: Any) -> dict[str, str]:
        return {a.key: a.value.WhichOneof("value") for a in attributes}

    kinds = {"stringValue": "string_value", "intValue": "int_value", "doubleValue": "double_value"}
    assert shape(span.attributes) == {
        a["key"]: kinds[next(iter(a["value"]))] for a in golden["span"]["attributes"]
    }
    assert span.kind == golden["span"]["kind"]
    assert scope.name == golden["scope"]["name"]
    assert span.flags == golden["span"]["flags"]
    assert {a["key"] for a in golden["resource"]["attributes"]} <= set(shape(resource.attributes))
    assert span.trace_id.hex() == TRACE
    assert span.parent_span_id.hex() == "b7ad6b7169203331"
    assert not span.events
    said = {a.key: a.value for a in span.attributes}
    assert said["gen_ai.request.id"].string_value == "chatcmpl-client-chosen"
    assert said["gen_ai.usage.completion_tokens"].int_value == 24
    latency = "gen_ai.latency."
    phases = {k.removeprefix(latency): v.double_value for k, v in said.items() if latency in k}
    assert phases["time_in_model_inference"] == pytest.approx(
        phases["time_in_model_prefill"] + phases["time_in_model_decode"]
    )
    assert span.end_time_unix_nano - span.start_time_unix_nano >= phases["e2e"] * 1e9 - 1000
    who = {a.key: a.value for _, _, s in alive for a in s.attributes}
    assert who["tokenweir.role"].string_value == "engine"
    assert who["tokenweir.gpu.count"].int_value == 4


def test_each_of_n_answers_has_a_span_with_the_same_id_and_greedy_leaves_out_temperature(
    collector: Any,
) -> None:
    async def scenario() -> Any:
        async with collector() as sink:
            server = await serve(replace(FAST, otlp_url=sink.url))
            async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
                await client.post(CHAT, json=ask(n=3, temperature=0))
            await server.close()
            return [span for _, _, span in sink.spans("llm_request")]

    spans = asyncio.run(scenario())

    said = [{a.key: a.value for a in span.attributes} for span in spans]
    assert len(said) == 3
    assert len({s["gen_ai.request.id"].string_value for s in said}) == 1
    assert all("gen_ai.request.temperature" not in s for s in said)


def test_metrics_have_vllms_names_types_labels_and_bounds() -> None:
    async def scenario(_: EngineServer, client: httpx.AsyncClient) -> Any:
        await client.post(CHAT, json=ask())
        await client.post("/v1/completions", json={"model": "tiny-llama", "prompt": "flow"})
        return (await client.get("/metrics")).text

    ours, theirs = run(scenario), (GOLDEN / "metrics.txt").read_text()

    assert types(ours) == types(theirs)
    assert series(ours) == series(theirs)


def types(text: str) -> set[tuple[str, ...]]:
    lines = (line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE"))
    return {tuple(line) for line in lines if not line[0].startswith(("python_", "process_"))}


def series(text: str) -> set[tuple[str, frozenset[str]]]:
    """Every sample's name with its labels; values of `le` and closed sets are kept."""
    kept = {"le", "reason", "source", "finished_reason", "sleep_state", "handler", "status"}
    found = set()
    for line in text.splitlines():
        if line.startswith(("#", "python_", "process_")):
            continue
        name, _, labels = line.rpartition(" ")[0].partition("{")
        pairs = re.findall(r'(\w+)="([^"]*)"', labels)
        found.add((name, frozenset(f"{k}={v}" if k in kept else k for k, v in pairs)))
    return found


def test_a_paused_engine_shows_idle_gauges_and_a_full_load() -> None:
    async def scenario(server: EngineServer, client: httpx.AsyncClient) -> Any:
        await client.post("/pause", params={"mode": "keep"})
        waiting = [asyncio.create_task(client.post(CHAT, json=ask())) for _ in range(5)]
        while server.in_flight < 5:
            await asyncio.sleep(0.005)
        stalled = (await client.get("/metrics")).text
        load = (await client.get("/load")).json()
        await client.post("/resume")
        answers = await asyncio.gather(*waiting)
        return stalled, load, [answer.status_code for answer in answers]

    stalled, load, statuses = run(scenario)

    assert 'vllm:num_requests_waiting{engine="0",model_name="tiny-llama"} 0.0' in stalled
    assert load == {"server_load": 5}
    assert statuses == [200] * 5


def test_a_draining_engine_refuses_new_requests_and_finishes_the_others() -> None:
    async def scenario(server: EngineServer, client: httpx.AsyncClient) -> Any:
        running = asyncio.create_task(client.post(CHAT, json=ask(max_tokens=400, ignore_eos=True)))
        while server.in_flight == 0:
            await asyncio.sleep(0.005)
        draining = asyncio.create_task(server.drain())
        await asyncio.sleep(0)
        refused = await client.post(CHAT, json=ask())
        health = await client.get("/health")
        await draining
        return refused.status_code, health.status_code, (await running).status_code

    assert run(scenario) == (500, 200, 200)


def test_a_replica_that_is_closed_cuts_its_streams() -> None:
    async def scenario(server: EngineServer, client: httpx.AsyncClient) -> Any:
        body = ask(stream=True, max_tokens=5000, ignore_eos=True)
        received = b""
        with pytest.raises(httpx.RemoteProtocolError):
            async with client.stream("POST", CHAT, json=body) as answer:
                closing = None
                async for piece in answer.aiter_bytes():
                    received += piece
                    closing = closing or asyncio.create_task(server.close())
        return received

    received = run(scenario, replace(FAST, speed=1))

    assert b"data:" in received
    assert b"[DONE]" not in received


def test_a_repeated_prompt_is_served_from_the_prefix_cache() -> None:
    async def scenario(_: EngineServer, client: httpx.AsyncClient) -> Any:
        answers = [(await client.post(CHAT, json=ask("same " * 100))).json() for _ in range(2)]
        salted = (await client.post(CHAT, json=ask("same " * 100, cache_salt="b"))).json()
        return [a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in [*answers, salted]]

    assert run(scenario) == [0, 112, 0]


def test_the_command_line_names_what_vllm_names() -> None:
    settings = parse_arguments(
        ["--port", "0", "--instance", "r3", "--max-num-seqs", "4", "--num-gpu-blocks", "99",
         "--scheduling-policy", "priority", "--max-num-queued-reqs", "7", "--speed", "2"]
    )  # fmt: skip

    assert settings.instance == "r3"
    assert settings.limits == EngineLimits(4, 2048, 99, 16, by_priority=True)
    assert (settings.max_num_queued_reqs, settings.speed) == (7, 2)
