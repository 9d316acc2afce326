"""Seeded traffic of a gateway, a router, engines and agents, as separate export requests."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Body = Callable[..., bytes]


def some_traffic(body_of: Body, seed: int, requests: int = 25) -> list[bytes]:
    """Return one export request per process and request: they may arrive in any order.

    Some spans are missing, some requests fail, some are retried, some are made by an agent, some
    spans come twice with different contents.
    """
    chance = random.Random(seed)
    bodies: list[bytes] = []
    for number in range(requests):
        bodies += _request(body_of, chance, number)
    return bodies


def _request(body_of: Body, chance: random.Random, number: int) -> list[bytes]:
    trace = f"{number // 2:x}a" if chance.random() < 0.2 else f"{number:x}f"
    start = chance.randrange(0, 90_000)
    tokens = {"in": chance.randrange(10, 2000), "out": chance.randrange(1, 300)}
    status = chance.choice([200] * 8 + [429, 503])
    ids = [f"{number:x}{part}" for part in ("1", "2", "3", "4", "5")]
    tenant = chance.choice(["acme", "globex", ""])
    times = {"start_ms": start, "end_ms": start + 1000 + chance.random() * 500}
    gateway = {
        "trace": trace, "id": ids[0], "parent": ids[4], "kind": 2,
        "name": "POST /v1/chat/completions", **times,
        "attributes": {
            "tokenweir.role": "gateway", "tenant.id": tenant, "http.route": "/v1/chat/completions",
            "http.response.status_code": status,
            "gen_ai.server.time_to_first_token": chance.random() * 0.5,
            "gen_ai.usage.output_tokens": tokens["out"] + chance.choice([0, 0, 1]),
            "gen_ai.usage.input_tokens": str(tokens["in"]),
        },
    }  # fmt: skip
    agent = {
        "trace": trace, "id": ids[4], "name": "invoke_agent", "start_ms": start - 5,
        "end_ms": start + 2000,
        "attributes": {"gen_ai.operation.name": "invoke_agent", "user.id": f"u{number % 3}"},
    }  # fmt: skip
    tries = chance.choice([1, 1, 2])
    router = [
        {
            "trace": trace, "id": ids[1], "parent": ids[0], "name": "POST /v1/chat/completions",
            "kind": 3, "start_ms": start + 2 + 100 * number_of, "end_ms": start + 900,
            "attributes": {"tokenweir.role": "router", "tokenweir.attempt": number_of + 1},
        }
        for number_of in range(tries)
    ]  # fmt: skip
    for number_of, one in enumerate(router):
        one["id"] = f"{ids[1]}{number_of}"
    engine = {
        "trace": trace, "id": ids[2], "parent": router[-1]["id"], "name": "llm_request", "kind": 2,
        "start_ms": start + 10, "end_ms": start + 890,
        "attributes": {
            "gen_ai.request.id": f"chatcmpl-{number:x}",
            "gen_ai.usage.prompt_tokens": tokens["in"],
            "gen_ai.usage.completion_tokens": tokens["out"],
            "gen_ai.latency.time_to_first_token": 0.1,
            "gen_ai.latency.time_in_queue": chance.random() / 10,
            "gen_ai.latency.time_in_model_prefill": chance.random() / 10,
            "gen_ai.latency.time_in_model_decode": chance.random(),
        },
    }  # fmt: skip
    bodies = [
        _of(body_of, "tokenweir-gateway", [gateway]),
        _of(body_of, "tokenweir-router", router),
        _of(body_of, "vllm", [engine]),
        _of(body_of, "agent", [agent]),
    ]
    if chance.random() < 0.1:
        changed = gateway | {"attributes": gateway["attributes"] | {"tenant.id": "initech"}}
        bodies.append(_of(body_of, "tokenweir-gateway", [changed]))
    return [body for body in bodies if chance.random() < 0.93]


def _of(body_of: Body, service: str, spans: list[dict[str, Any]]) -> bytes:
    return body_of(*spans, service=service)
