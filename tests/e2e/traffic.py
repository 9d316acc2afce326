"""Traffic with everything that makes counting hard, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.otlp import (
    CHAT,
    MS,
    SECOND,
    Sent,
    alive_span,
    engine_span,
    gateway_span,
    pairs,
    router_span,
    span,
    try_span,
)

BASE = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
BASE_NS = int(BASE.timestamp()) * SECOND
NOW = BASE + timedelta(hours=3)
MINUTE = 60 * SECOND

TENANTS = ("acme", "globex", "initech")
REPLICAS = ("r0", "r1")


def traffic(seed: int, traces: int = 30) -> list[Sent]:
    """Return the spans of some hours, in the order of their ends.

    Among them: retries, n > 1, requests of agents, spans that are alive only, children without a
    stored parent, conflicting copies of a span, requests on bucket edges and days in the past, and
    a trace of two halves that one span joins.
    """
    rng = random.Random(seed)
    sent = [each for _ in range(traces) for each in _request(rng)]
    sent += _on_the_edges(rng)
    sent += _two_halves(rng)
    sent += _agent(rng)
    sent += _orphans(rng)
    sent += _alive(rng)
    sent += [_contradiction(rng, each) for each in rng.sample(sent, 8)]
    return sorted(sent, key=lambda each: each.span.end_time_unix_nano)


def _request(rng: random.Random, start: int | None = None) -> Iterator[Sent]:
    """Yield the spans of one request through gateway, router and, mostly, an engine."""
    trace, gateway, router = rng.randbytes(16), rng.randbytes(8), rng.randbytes(8)
    if start is None:
        days = rng.choice([0] * 8 + [3, 25])
        minutes = 15 if days else 90
        start = BASE_NS - days * 86_400 * SECOND + rng.randrange(minutes * MINUTE)
    queue, prefill, decode = rng.uniform(0, 900), rng.uniform(20, 2500), rng.uniform(100, 4000)
    prompt, completion = rng.randrange(1, 4000), rng.randrange(1, 400)
    ending = rng.choices(["ok", "retried", "refused", "failed"], [7, 2, 1, 1])[0]
    status = {"refused": 429, "failed": 503}.get(ending, 200)
    length = queue + prefill + decode + 9
    said = {} if status != 200 else {
        "gen_ai__server__time_to_first_token": (queue + prefill + 4) / 1000,
        "gen_ai__usage__output_tokens": completion + rng.choice([0, 0, 0, 1]),
    }  # fmt: skip
    yield gateway_span(
        trace, gateway, start, length if status == 200 else 3,
        tenant=rng.choice(TENANTS), status=status, route=rng.choice([CHAT, "/v1/completions"]),
        tokenweir__priority=rng.choice(["interactive", "batch"]), **said,
    )  # fmt: skip
    if status == 429:
        return
    yield router_span(trace, router, gateway, start + 2 * MS, length - 3)
    attempt, at = 1, start + 3 * MS
    if ending in {"retried", "failed"}:
        yield try_span(trace, rng.randbytes(8), router, at, 5, attempt=1, status=502, replica="r0")
        attempt, at = 2, at + 6 * MS
    if ending == "failed":
        return
    tried, replica = rng.randbytes(8), rng.choice(REPLICAS)
    yield try_span(
        trace, tried, router, at, length - 8, attempt=attempt, status=200, replica=replica
    )
    for _ in range(rng.choice([1, 1, 1, 3])):
        yield engine_span(
            trace, rng.randbytes(8), tried, at + MS, queue_ms=queue, prefill_ms=prefill,
            decode_ms=decode, prompt=prompt, completion=completion, replica=replica,
            request_id=f"chatcmpl-{trace.hex()[:8]}",
        )  # fmt: skip


def _on_the_edges(rng: random.Random) -> list[Sent]:
    """Begin exactly on, and one nanosecond beside, an hour, a minute and ten seconds."""
    edges = [BASE_NS + 3600 * SECOND, BASE_NS + 61 * MINUTE, BASE_NS + 61 * MINUTE + 10 * SECOND]
    starts = [edge + beside for edge in edges for beside in (-1, 0, 1)]
    return [
        gateway_span(
            rng.randbytes(16), rng.randbytes(8), start, 300, tenant=rng.choice(TENANTS),
            gen_ai__server__time_to_first_token=rng.choice([1.999999, 2.0, 2.000001]),
        )
        for start in starts
    ]  # fmt: skip


def _two_halves(rng: random.Random) -> list[Sent]:
    """Two calls too far apart to be one request, until the span between them has come."""
    trace, first, between = rng.randbytes(16), rng.randbytes(8), rng.randbytes(8)
    start = BASE_NS + 30 * MINUTE
    return [
        gateway_span(trace, first, start, 17 * 60_000, tenant="acme"),
        router_span(trace, between, first, start + 8 * MINUTE, 9 * 60_000),
        engine_span(
            trace, rng.randbytes(8), between, start + 16 * MINUTE, queue_ms=1, prefill_ms=40,
            decode_ms=500, prompt=77, completion=11, request_id="chatcmpl-far",
        ),
    ]  # fmt: skip


def _agent(rng: random.Random) -> list[Sent]:
    """A task of an agent that calls a model twice, once through another framework's span."""
    trace, task, outer = rng.randbytes(16), rng.randbytes(8), rng.randbytes(8)
    start = BASE_NS + 42 * MINUTE

    def made(name: str, at_ms: int, ms: int, parent: bytes, own: bytes, **given: object) -> Sent:
        attributes = {key.replace("__", "."): value for key, value in given.items()}
        begun = start + at_ms * MS
        return Sent(
            "travel-agent", "agent-0",
            span(trace, own, name, begun, begun + ms * MS, attributes, parent=parent),
            {"tenant.id": "globex", "service.version": "1.4.0"},
        )  # fmt: skip

    usage = {"gen_ai__usage__input_tokens": 900, "gen_ai__usage__output_tokens": 40}
    return [
        made("invoke_agent planner", 0, 9000, b"", task, gen_ai__operation__name="invoke_agent",
             tokenweir__task__id="task-7", **usage),
        made("chat tiny", 100, 3000, task, outer, gen_ai__operation__name="chat",
             gen_ai__request__model="tiny", **usage),
        made("chat tiny", 120, 2900, outer, rng.randbytes(8), gen_ai__operation__name="chat",
             gen_ai__request__model="tiny", gen_ai__usage__input_tokens=901,
             gen_ai__usage__output_tokens=40),
        made("execute_tool search", 3200, 700, task, rng.randbytes(8),
             gen_ai__operation__name="execute_tool", gen_ai__tool__name="search"),
        made("chat tiny", 4000, 2000, task, rng.randbytes(8), gen_ai__operation__name="chat",
             gen_ai__request__model="tiny", **usage),
    ]  # fmt: skip


def _orphans(rng: random.Random) -> list[Sent]:
    """An engine's sequences whose caller sends nothing: n = 3, and a batch of two prompts."""
    spans: list[Sent] = []
    for names in (["cmpl-a"] * 3, ["cmpl-b-0", "cmpl-b-1"]):
        trace, parent, start = rng.randbytes(16), rng.randbytes(8), BASE_NS + 50 * MINUTE
        spans += [
            engine_span(
                trace, rng.randbytes(8), parent, start + i * MS, queue_ms=2, prefill_ms=30,
                decode_ms=300 + 10 * i, prompt=64, completion=20 + i, replica="r1",
                request_id=name,
            )
            for i, name in enumerate(names)
        ]  # fmt: skip
    return spans


def _alive(rng: random.Random) -> list[Sent]:
    spans = []
    for replica in REPLICAS:
        for minute in range(0, 180, 15):
            start = BASE_NS + minute * MINUTE
            spans.append(
                alive_span(
                    rng, "engine", "vllm", replica, start, start + 15 * MINUTE,
                    tokenweir__gpu__type="h100", tokenweir__gpu__count=4,
                    gen_ai__request__model="tiny",
                )
            )  # fmt: skip
    spans.append(
        alive_span(rng, "gateway", "tokenweir-gateway", "gw-0", BASE_NS, BASE_NS + 170 * MINUTE)
    )
    return spans


def _contradiction(rng: random.Random, sent: Sent) -> Sent:
    """Say something else about the same span; now and then even when it began."""
    other = Span()
    other.CopyFrom(sent.span)
    other.attributes.extend(pairs({"user.id": f"u{rng.randrange(9)}"}))
    other.end_time_unix_nano += 7 * MS
    if rng.random() < 0.3:
        other.start_time_unix_nano -= 12 * SECOND
    return Sent(sent.service, sent.instance, other, sent.resource)
