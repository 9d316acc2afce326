import asyncio
import itertools
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from base.errors import ConfigError
from stack.engine.server import serve
from stack.engine.settings import EngineSettings
from stack.load.generator import Summary, run
from stack.load.plan import FloodPlan, LoadPlan, calls, parse_flood
from stack.wire.filler import count_tokens
from stack.wire.names import CHAT_PATH
from stack.wire.serving import listen

KEYS = {"acme": "k-acme", "globex": "k-globex", "initech": "k-initech"}
PLAN = LoadPlan("http://127.0.0.1:9", KEYS, rate=5, duration_s=120)


class Gateway:
    """Answers each call with the next of `statuses`, 200 at the end, and remembers headers."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.seen: list[dict[str, str]] = []
        self.hangs = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append({k.decode(): v.decode() for k, v in scope["headers"]})
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message.get("more_body"):
                break
        status = self.statuses.pop(0) if self.statuses else 200
        headers = [(b"retry-after", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if self.hangs:
            await receive()
            return
        answer = {"choices": [{"finish_reason": "stop"}], "usage": {"completion_tokens": 7}}
        text = json.dumps(answer).encode()
        if json.loads(body)["stream"]:
            delta = json.dumps({"choices": [{"delta": {"content": "hi"}}]}).encode()
            text = b"data: " + delta + b"\n\ndata: " + text + b"\n\ndata: [DONE]\n\n"
        await send({"type": "http.response.body", "body": text})


def play(gateway: Gateway, plan: LoadPlan) -> Summary:
    async def scenario() -> Summary:
        listener = await listen(gateway)
        try:
            return await run(replace(plan, gateway_url=listener.url))
        finally:
            await listener.stop()

    return asyncio.run(scenario())


def one_flood_call(**more: Any) -> LoadPlan:
    flood = FloodPlan("acme", rate=1, prompt_tokens=100, for_s=1)
    return replace(PLAN, rate=0, floods=[flood], **more)


def test_the_same_seed_plans_the_same_calls() -> None:
    assert list(calls(PLAN)) == list(calls(PLAN))
    assert list(calls(PLAN)) != list(calls(replace(PLAN, seed=2)))


def test_calls_come_at_the_asked_rate_in_order_and_only_from_tenants_with_a_key() -> None:
    planned = list(calls(replace(PLAN, duration_s=600)))

    assert len(planned) == pytest.approx(3000, rel=0.1)
    assert all(a.at_s <= b.at_s for a, b in itertools.pairwise(planned))
    tenants = Counter(call.tenant for call in planned)
    assert set(tenants) == set(KEYS)
    assert tenants["acme"] > tenants["initech"]


def test_prompts_have_the_length_of_the_trace() -> None:
    planned = list(calls(replace(PLAN, keys={"acme": "k"})))

    lengths = sorted(
        sum(count_tokens(m["content"]) for m in call.body["messages"]) for call in planned
    )
    assert lengths[len(lengths) // 2] == pytest.approx(1020, rel=0.35)


def test_prompts_of_a_tenant_share_their_beginning() -> None:
    planned = [call for call in calls(PLAN) if call.tenant == "acme" and call.path == CHAT_PATH]

    systems = [call.body["messages"][0]["content"] for call in planned]
    longest = max(systems, key=len)
    assert count_tokens(longest) == 384
    assert all(longest.startswith(system) for system in systems)


def test_mooncake_prompts_share_the_blocks_the_trace_names() -> None:
    planned = [
        call.body["messages"][0]["content"]
        for call in itertools.islice(calls(replace(PLAN, source="mooncake", keys={"acme": "k"})), 2)
    ]

    block = 512 * 4
    assert planned[0][:block] == planned[1][:block]
    assert planned[0][block : 2 * block] != planned[1][block : 2 * block]


def test_a_flood_comes_in_its_time_with_prompts_that_no_cache_knows() -> None:
    flood = parse_flood("tenant=acme,rate=6,prompt_tokens=6000,for=10s,after=30s")
    planned = [call for call in calls(replace(PLAN, floods=[flood])) if call.is_flood]

    assert len(planned) == 60
    assert (planned[0].at_s, planned[-1].at_s) == (30.0, pytest.approx(39.8, abs=0.1))
    prompts = {call.body["messages"][0]["content"] for call in planned}
    assert len({prompt[:64] for prompt in prompts}) == 60
    assert {count_tokens(prompt) for prompt in prompts} == {6000}


@pytest.mark.parametrize("text", ["tenant=acme", "tenant=acme,rate=x", "tenant=acme,speed=3"])
def test_a_flood_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="flood"):
        parse_flood(text)


def test_a_flood_of_a_tenant_without_a_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="no key"):
        list(calls(replace(PLAN, floods=[FloodPlan("nobody", 1)])))


def test_a_refused_call_is_tried_again_after_the_time_asked_for() -> None:
    gateway = Gateway(429, 503)

    tally = play(gateway, one_flood_call()).tallies["acme flood"]

    assert tally.endings == {"ok": 1}
    assert tally.retries == 2
    assert tally.output_tokens == 7
    assert gateway.seen[0]["authorization"] == "Bearer k-acme"
    assert gateway.seen[0]["x-feature"] == "bulk-import"


def test_retries_end_and_a_bad_request_is_not_tried_again() -> None:
    tired = play(Gateway(429, 429, 429), one_flood_call(retries=2)).tallies["acme flood"]
    bad = play(Gateway(400), one_flood_call()).tallies["acme flood"]

    assert (tired.endings, tired.retries) == ({"refused": 1}, 2)
    assert (bad.endings, bad.retries) == ({"refused": 1}, 0)


def test_a_client_without_patience_leaves() -> None:
    gateway = Gateway()
    gateway.hangs = True

    tally = play(gateway, one_flood_call(patience_s=0.1)).tallies["acme flood"]

    assert tally.endings == {"impatient": 1}


def test_a_gateway_that_is_away_is_a_failure_and_not_a_crash() -> None:
    tally = asyncio.run(run(one_flood_call(retries=0))).tallies["acme flood"]

    assert (tally.endings, tally.statuses) == ({"failed": 1}, {0: 1})


def test_a_run_against_an_engine_ends_with_a_summary() -> None:
    async def scenario() -> Any:
        server = await serve(EngineSettings(speed=50, stream_interval_s=0.05))
        try:
            plan = replace(PLAN, gateway_url=server.url, rate=100, duration_s=0.6)
            return (await run(plan)).as_json()
        finally:
            await server.close()

    summary = asyncio.run(scenario())

    assert summary["sent"] > 10
    left = sum(tenant.get("left", 0) for tenant in summary["tenants"].values())
    assert summary["ok"] == summary["sent"] - left
    assert summary["tenants"]["acme"]["ttft_p50_ms"] > 0
