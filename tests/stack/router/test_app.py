from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.trace import SpanKind

from stack.router.app import RouterSettings
from stack.router.workers import HealthChecks, HealthRules

CHAT = "/v1/chat/completions"


def spans_of(bench: Any, kind: SpanKind) -> list[Any]:
    return [s for s in bench.router_spans.all() if s.kind is kind]


async def server_span(bench: Any) -> Any:
    """Wait for the one SERVER span: it may end a moment after the client has its answer."""
    await until(lambda: spans_of(bench, SpanKind.SERVER))
    (span,) = spans_of(bench, SpanKind.SERVER)
    return span


async def until(true: Any) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


async def test_a_request_leaves_a_server_span_and_a_client_span_under_it(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    url = await bench.router(engine_url)

    answer = await bench.chat(url, "say 2", headers={"x-request-id": "r-1"})

    server = await server_span(bench)
    (client,) = spans_of(bench, SpanKind.CLIENT)
    assert answer.status_code == 200
    assert server.name == client.name == "POST /v1/chat/completions"
    assert client.parent.span_id == server.context.span_id
    assert engine.headers[0]["traceparent"].split("-")[2] == f"{client.context.span_id:016x}"
    assert engine.headers[0]["x-request-id"] == "r-1"
    assert "authorization" not in engine.headers[0]
    assert server.attributes["tokenweir.role"] == "router"
    assert "no prefix, load 0" in server.attributes["tokenweir.decision"]
    assert server.attributes["http.response.status_code"] == 200
    assert client.attributes["tokenweir.attempt"] == 1
    assert client.attributes["server.address"] == "127.0.0.1"
    assert client.attributes["server.port"] == int(engine_url.rpartition(":")[2])


async def test_the_same_prefix_goes_to_the_same_worker(bench: Any) -> None:
    engines = [await bench.engine() for _ in range(3)]
    url = await bench.router(*(url for _, url in engines))

    for topic in ("alpha ", "beta ", "gamma "):
        for question in range(4):
            await bench.chat(url, "say 1 " + topic * 200 + str(question))

    assert sorted(len(engine.bodies) for engine, _ in engines) == [4, 4, 4]
    text = (await bench.http.get(f"{url}/metrics")).text
    hit = 'prefix_routing_decisions_total{outcome="prefix_hit",policy="cache_aware",stage="regular"'
    assert f"vllm_router_{hit}}} 9.0" in text


async def test_a_dead_worker_is_tried_once_and_the_request_answered_elsewhere(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    _, dead_url = await bench.engine()
    url = await bench.router(engine_url, dead_url)
    bench.the_router.workers.get(engine_url).load = 1  # so that the dead one is preferred
    await bench.listeners[dead_url].stop()

    answer = await bench.chat(url, "say 1")

    server = await server_span(bench)
    first, second = spans_of(bench, SpanKind.CLIENT)
    assert answer.status_code == 200
    assert len(engine.bodies) == 1
    assert first.attributes["error.type"] == "connection_failed"
    assert (first.attributes["tokenweir.attempt"], second.attributes["tokenweir.attempt"]) == (1, 2)
    assert "; then " in server.attributes["tokenweir.decision"]


async def test_no_retry_is_made_when_the_caller_has_none_left(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    _, dead_url = await bench.engine()
    url = await bench.router(engine_url, dead_url)
    bench.the_router.workers.get(engine_url).load = 1
    await bench.listeners[dead_url].stop()

    answer = await bench.chat(url, "say 1", headers={"x-tokenweir-retries-left": "0"})

    assert answer.status_code == 502
    assert engine.bodies == []


async def test_three_failures_open_the_circuit(bench: Any) -> None:
    _, dead_url = await bench.engine()
    url = await bench.router(dead_url)
    await bench.listeners[dead_url].stop()

    answers = [(await bench.chat(url, "say 1")).status_code for _ in range(4)]

    assert answers == [503, 503, 503, 503]
    assert len(spans_of(bench, SpanKind.CLIENT)) == 3
    text = (await bench.http.get(f"{url}/metrics")).text
    assert f'vllm_router_cb_state{{worker="{dead_url}"}} 1.0' in text


async def test_without_workers_the_answer_is_503_with_retry_after(bench: Any) -> None:
    url = await bench.router()

    answer = await bench.chat(url, "say 1")

    server = await server_span(bench)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"
    assert server.attributes["tokenweir.decision"] == "no worker"
    assert server.attributes["error.type"] == "no_worker"


async def test_a_stream_the_engine_cuts_is_cut_for_the_client_and_said_so(bench: Any) -> None:
    _, engine_url = await bench.engine()
    router_url = await bench.router(engine_url)
    url = await bench.gateway(router_url)

    answer = await bench.chat(url, "cut 2", stream=True)

    server = await server_span(bench)
    assert '"code":"stream_cut"' in answer.text
    assert server.attributes["error.type"] == "stream_cut"
    assert (await bench.gateway_spans.only()).attributes["tokenweir.outcome_reason"] == "stream_cut"


async def test_a_client_that_leaves_frees_the_worker(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    url = await bench.router(engine_url)
    worker = bench.the_router.workers.get(engine_url)
    task = asyncio.create_task(bench.chat(url, "slow", stream=True))
    await until(lambda: engine.bodies)
    assert worker.load == 1

    task.cancel()
    await until(lambda: worker.load == 0 and engine.abandoned)

    server = await server_span(bench)
    assert server.attributes["error.type"] == "client_gone"


async def test_a_removed_worker_finishes_its_requests_and_gets_no_new_ones(bench: Any) -> None:
    leaving, leaving_url = await bench.engine()
    staying, staying_url = await bench.engine()
    url = await bench.router(leaving_url)
    long = asyncio.create_task(bench.chat(url, "slow", stream=True))
    await until(lambda: leaving.bodies)
    await bench.http.post(f"{url}/workers", json={"url": staying_url, "name": "r1"})

    await bench.http.post(f"{url}/remove_worker", params={"url": leaving_url})
    others = [await bench.chat(url, "say 1") for _ in range(5)]
    states = {
        w["url"]: (w["state"], w["load"])
        for w in (await bench.http.get(f"{url}/workers")).json()["workers"]
    }
    leaving.release.set()

    assert (await long).text.endswith("[DONE]\n\n")
    assert [answer.status_code for answer in others] == [200] * 5
    assert len(staying.bodies) == 5
    assert states == {leaving_url: ("draining", 1), staying_url: ("ready", 0)}
    await until(lambda: bench.the_router.workers.get(leaving_url) is None)


async def test_the_admin_calls_answer_as_vllm_router_does(bench: Any) -> None:
    _, engine_url = await bench.engine()
    url = await bench.router()
    http = bench.http

    added = await http.post(f"{url}/add_worker", params={"url": engine_url, "name": "r7"})
    again = await http.post(f"{url}/add_worker", params={"url": engine_url})
    one = await http.get(f"{url}/workers/{engine_url}")
    urls = await http.get(f"{url}/list_workers")
    models = await http.get(f"{url}/v1/models")
    ready = await http.get(f"{url}/readiness")
    removed = await http.delete(f"{url}/workers/{engine_url}")
    unknown = await http.post(f"{url}/remove_worker", params={"url": "http://127.0.0.1:1"})
    not_ready = await http.get(f"{url}/readiness")

    assert added.status_code == 200
    assert (again.status_code, again.json()["code"]) == (400, "known")
    assert one.json()["name"] == "r7"
    assert one.json()["is_healthy"] is True
    assert one.json()["load"] == 0
    assert urls.json() == {"urls": [engine_url]}
    assert [m["id"] for m in models.json()["data"]] == ["tiny"]
    assert (ready.status_code, not_ready.status_code) == (200, 503)
    assert (removed.status_code, unknown.status_code) == (200, 200)
    assert (await http.get(f"{url}/workers/{engine_url}")).status_code == 404


async def test_a_worker_that_is_not_healthy_in_time_is_refused(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    engine.healthy = False
    url = await bench.router(settings=RouterSettings(startup_wait_s=0.05))

    answer = await bench.http.post(f"{url}/add_worker", params={"url": engine_url})

    assert (answer.status_code, answer.json()["code"]) == (400, "unhealthy")


async def test_health_needs_failures_in_a_row_and_comes_back(bench: Any) -> None:
    engine, engine_url = await bench.engine()
    url = await bench.router(engine_url)
    workers = bench.the_router.workers
    checks = HealthChecks(workers, bench.http, HealthRules())
    worker = workers.get(engine_url)

    engine.healthy = False
    await checks.check(worker)
    after_one = worker.healthy
    await checks.check(worker)
    after_two = worker.healthy
    refused = await bench.chat(url, "say 1")
    engine.healthy = True
    await checks.check(worker)

    assert (after_one, after_two, worker.healthy) == (True, False, True)
    assert refused.status_code == 503


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model":7}'])
async def test_a_body_the_router_cannot_read_is_the_engines_to_refuse(
    bench: Any, body: bytes
) -> None:
    _, engine_url = await bench.engine()
    url = await bench.router(engine_url)

    answer = await bench.http.post(url + CHAT, content=body)

    assert answer.status_code == 500  # what the fake engine makes of it
