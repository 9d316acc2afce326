"""Thirty days of plausible traffic, an incident at its end, and what was done about it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from slo.verdict import State, TierVerdict, Verdict
from store.engine import Engine

TENANTS = ("acme", "globex", "initech", "umbrella", "")
ROUTES = ("/v1/chat/completions", "/v1/embeddings")
MODELS = ("llama-3.1-70b-instruct", "llama-3.1-8b-instruct", "gpt-4o-mini", "mystery-7b")
INCIDENT = timedelta(minutes=25)
NS = 10**9


def seed(engine: Engine, now: datetime, *, days: int = 30, requests: int = 70_000) -> None:
    """Fill facts, rollups, alive, sources, spans and SLO counts up to `now`."""
    rng = np.random.default_rng(7)
    facts = _facts(rng, now, days, requests)
    engine.insert_arrow("facts", facts)
    for table, step in (("rollup_10s", 10), ("rollup_1m", 60), ("rollup_1h", 3600)):
        engine.execute(_ROLLUP.format(table=table, step=step))
    _alive(engine, now, days)
    seed_traces(engine, now)


def _facts(rng: np.random.Generator, now: datetime, days: int, requests: int) -> pa.Table:
    end = now.timestamp()
    start = end - days * 86_400
    at = rng.uniform(start, end, requests * 3)
    hour = (at % 86_400) / 3600
    busy = 0.35 + 0.65 * np.clip(np.sin((hour - 6) / 24 * 2 * np.pi), 0, 1) ** 0.8
    at = at[rng.uniform(0, 1, len(at)) < busy][:requests]
    flood = end - rng.uniform(0, INCIDENT.total_seconds(), requests // 25)
    is_flood = np.r_[np.zeros(len(at), bool), np.ones(len(flood), bool)]
    at = np.r_[at, flood]
    order = np.argsort(at)
    at, is_flood = at[order], is_flood[order]
    n = len(at)
    in_incident = at > end - INCIDENT.total_seconds()
    tenant = np.where(is_flood, "acme", rng.choice(TENANTS, n, p=[0.42, 0.27, 0.18, 0.11, 0.02]))
    route = rng.choice(ROUTES, n, p=[0.9, 0.1])
    model = rng.choice(MODELS, n, p=[0.72, 0.2, 0.07, 0.01])
    own = np.isin(model, MODELS[:2])
    replica = np.where(
        model == MODELS[0],
        rng.choice(["r0", "r1"], n),
        np.where(model == MODELS[1], "r2", ""),
    )
    hours = (at % 86_400) / 3600
    away = (replica == "r1") & ((hours < 7) | (hours >= 21)) & (at < end - 7200)
    replica = np.where(away, "r0", replica)
    prompt = np.round(rng.lognormal(6.2, 0.8, n) * np.where(is_flood, 9, 1)).astype(int) + 8
    completion = np.round(rng.lognormal(6.1, 0.7, n)).astype(int) + 1
    cached = (prompt * rng.choice([0, 0.3, 0.7], n, p=[0.5, 0.3, 0.2])).astype(int)
    queue = rng.exponential(15, n) * np.where(in_incident & own, 40, 1)
    prefill = 18 + (prompt - cached) * 0.16 * rng.lognormal(0, 0.1, n)
    tpot = 38 * rng.lognormal(0, 0.15, n)
    decode = tpot * completion
    ttft = queue + prefill + 6
    shed = is_flood & (at > end - INCIDENT.total_seconds() * 0.6) & (rng.uniform(0, 1, n) < 0.75)
    gone = rng.uniform(0, 1, n) < 0.008
    error = rng.uniform(0, 1, n) < 0.004
    slow = ttft > 2000
    outcome = np.select([shed | gone, error | slow], [3, 2], 1)
    reason = np.select(
        [shed, gone, error, slow], ["shed", "client_gone", "upstream_error", "ttft_slow"], "ok"
    )
    took_ms = np.where(shed, 2.0, ttft + decode)
    ran = ~shed
    ns = (at * 1e6).astype("int64") * 1000

    def known(values: Any, where: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=~where)

    stamp = pa.timestamp("ns", tz="UTC")
    return pa.table(
        {
            "start": pa.array(ns, stamp),
            "end": pa.array(ns + (took_ms * 1e6).astype("int64"), stamp),
            "trace_id": pa.array([_id(i, 16) for i in range(n)], pa.binary(16)),
            "request_id": [f"{i:016x}" for i in range(n)],
            "tenant": tenant,
            "route": route,
            "model": model,
            "replica": np.where(ran, replica, ""),
            "user_id": rng.choice([f"u{i}" for i in range(40)], n),
            "feature": rng.choice(["chat", "search", "summarise", ""], n),
            "priority": rng.choice(["interactive", "batch"], n, p=[0.8, 0.2]),
            "outcome": pa.array(outcome, pa.int8()),
            "outcome_reason": reason,
            "http_status": pa.array(np.select([shed, error], [429, 502], 200), pa.int32()),
            "duration_ms": took_ms,
            "ttft_ms": known(ttft, ran, pa.float64()),
            "tpot_ms": known(tpot, ran, pa.float64()),
            "queue_ms": known(queue, ran & own, pa.float64()),
            "prefill_ms": known(prefill, ran & own, pa.float64()),
            "decode_ms": known(decode, ran & own, pa.float64()),
            "engine_s": known((prefill + decode) / 1000, ran & own, pa.float64()),
            "prompt_tokens": known(prompt, ran & ~gone, pa.int64()),
            "cached_tokens": known(cached, ran & ~gone, pa.int64()),
            "completion_tokens": known(completion, ran & ~gone, pa.int64()),
            "usage_source": np.where(ran & ~gone, "gateway", ""),
            "attempts": pa.array(rng.choice([1, 2], n, p=[0.98, 0.02]), pa.uint16()),
            "sources": [["gateway:tokenweir-gateway/gw-0"]] * n,
            "conflicts": pa.array([[]] * n, pa.list_(pa.string())),
            "version": pa.array([1] * n, pa.uint64()),
        }
    )


def _id(number: int, size: int) -> bytes:
    return (0xA000_0000 + number).to_bytes(size, "big")


def _alive(engine: Engine, now: datetime, days: int) -> None:
    """Quarter-hour records; r1 is a replica that comes and goes."""
    quarter, rows = timedelta(minutes=15), []
    for replica, gpu, model in (
        ("r0", "h100", MODELS[0]),
        ("r1", "h100", MODELS[0]),
        ("r2", "l40s", MODELS[1]),
    ):
        at = now - timedelta(days=days)
        while at < now:
            if replica != "r1" or 7 <= at.hour < 21 or now - at < timedelta(hours=2):
                rows.append(("vllm", replica, "engine", model, gpu, 4 if gpu == "h100" else 1, at))
            at += quarter
    stamp = pa.timestamp("ns", tz="UTC")
    columns = list(zip(*rows, strict=True))
    names = ("service", "instance", "role", "model", "gpu_type", "gpu_count")
    data: dict[str, Any] = {
        name: list(values) for name, values in zip(names, columns, strict=False)
    }
    data["start"] = pa.array(columns[6], stamp)
    data["end"] = pa.array([min(at + quarter, now) for at in columns[6]], stamp)
    engine.insert_arrow("alive", pa.table(data))
    minutes = int(days * 1440)
    engine.execute(f"""
INSERT INTO source_minutes
SELECT toStartOfMinute(toDateTime({int(now.timestamp())}, 'UTC')) - number * 60 AS minute,
  'gateway', 'tokenweir-gateway', 'gw-0', minute, minute + 59 FROM numbers({minutes})""")


def seed_traces(engine: Engine, now: datetime) -> str:
    """Write the spans of an agent's trace with three LLM calls; return its id."""
    trace = bytes.fromhex("aa" * 16)
    base = int((now - timedelta(minutes=3)).timestamp() * 1000)
    spans: list[dict[str, Any]] = []

    def span(
        number: int, parent: int, name: str, layer: str, start: float, took: float, **more: Any
    ) -> None:
        spans.append(
            {
                "trace_id": trace,
                "span_id": number.to_bytes(8, "big"),
                "parent_span_id": parent.to_bytes(8, "big"),
                "name": name,
                "layer": layer,
                "service": more.pop("service", layer),
                "start": (base + start) * 1_000_000,
                "end": (base + start + took) * 1_000_000,
                **more,
            }
        )

    facts = []
    span(1, 0, "invoke_agent researcher", "agent", 0, 9800, service="research-app")
    at, number = 120.0, 2
    for call, (prompt, completion) in enumerate(((1240, 96), (3980, 142), (5120, 610))):
        queue, prefill, decode = (40, 900, 180)[call], prompt * 0.11, completion * 3.4
        engine_ms = queue + prefill + decode
        tokens = {"prompt_tokens": prompt, "completion_tokens": completion}
        llm, gateway, router = number, number + 1, number + 2
        served = {"service": "tokenweir-gateway", "ttft_ms": queue + prefill + 9.0}
        span(llm, 1, "chat llama-3.1-70b-instruct", "llm", at, engine_ms + 44, **tokens)
        span(
            gateway, llm, "POST /v1/chat/completions", "gateway", at + 6, engine_ms + 30,
            tenant="acme", http_status=200, **served, **tokens,
        )  # fmt: skip
        span(router, gateway, "POST /v1/chat/completions", "router", at + 11, engine_ms + 18)
        if call == 1:
            span(number + 3, router, "POST", "router", at + 13, 140, status_code=2)
        span(
            number + 4, router, "llm_request", "engine", at + 18, engine_ms, service="vllm",
            instance="r0", queue_ms=float(queue), prefill_ms=prefill, decode_ms=decode,
            ttft_ms=queue + prefill, **tokens,
        )  # fmt: skip
        facts.append((gateway, at + 6, engine_ms + 30, queue, prefill, decode, prompt, completion))
        at, number = at + engine_ms + 60, number + 5
        if call < 2:
            tool = ("search_documents", "read_page")[call]
            span(number, 1, f"execute_tool {tool}", "tool", at, 640, tool_name=tool)
            at, number = at + 660, number + 1
    names = list(dict.fromkeys(name for row in spans for name in row))
    kinds: dict[str, pa.DataType] = {
        "start": pa.int64(), "end": pa.int64(), "trace_id": pa.binary(16),
        "span_id": pa.binary(8), "parent_span_id": pa.binary(8),
    }  # fmt: skip
    stamp = pa.timestamp("ns", tz="UTC")
    table: dict[str, Any] = {}
    for name in names:
        default: Any = 0 if name == "status_code" else None
        if name in {"tenant", "instance", "tool_name"}:
            default = ""
        values = [row.get(name, default) for row in spans]
        if name in {"start", "end"}:
            table[name] = pa.array([int(v) for v in values], stamp)
        else:
            table[name] = pa.array(values, kinds.get(name))
    table["bucket"] = pa.array([int(v["start"]) // NS for v in spans], pa.timestamp("s", tz="UTC"))
    engine.insert_arrow("spans", pa.table(table))
    _trace_facts(engine, trace, base, facts)
    return trace.hex()


def _trace_facts(engine: Engine, trace: bytes, base: int, facts: list[tuple[Any, ...]]) -> None:
    stamp = pa.timestamp("ns", tz="UTC")
    conflict = (
        '{"field":"prompt_tokens","layer":"llm","says":4012,"taken_from":"gateway","taken":3980}'
    )
    n = len(facts)
    columns = list(zip(*facts, strict=True))
    starts = [int((base + at) * 1_000_000) for at in columns[1]]
    engine.insert_arrow(
        "facts",
        pa.table(
            {
                "start": pa.array(starts, stamp),
                "end": pa.array(
                    [s + int(took * 1e6) for s, took in zip(starts, columns[2], strict=True)], stamp
                ),
                "trace_id": pa.array([trace] * n, pa.binary(16)),
                "request_id": [f"{span:016x}" for span in columns[0]],
                "tenant": ["acme"] * n,
                "route": [ROUTES[0]] * n,
                "model": [MODELS[0]] * n,
                "replica": ["r0"] * n,
                "outcome": pa.array([1] * n, pa.int8()),
                "outcome_reason": ["ok"] * n,
                "duration_ms": pa.array(columns[2], pa.float64()),
                "ttft_ms": [q + p + 9.0 for q, p in zip(columns[3], columns[4], strict=True)],
                "queue_ms": pa.array(columns[3], pa.float64()),
                "prefill_ms": pa.array(columns[4], pa.float64()),
                "decode_ms": pa.array(columns[5], pa.float64()),
                "engine_s": [(p + d) / 1000 for p, d in zip(columns[4], columns[5], strict=True)],
                "prompt_tokens": pa.array(columns[6], pa.int64()),
                "completion_tokens": pa.array(columns[7], pa.int64()),
                "usage_source": ["gateway"] * n,
                "attempts": pa.array([1, 2, 1], pa.uint16()),
                "sources": [["gateway:tokenweir-gateway/gw-0", "engine:vllm/r0"]] * n,
                "conflicts": pa.array([[], [conflict], []], pa.list_(pa.string())),
                "version": pa.array([1] * n, pa.uint64()),
            }
        ),
    )


def verdicts(now: datetime) -> list[Verdict]:
    """What an evaluator might say at the end of the seeded month."""
    rows = [
        ("chat-availability", "acme", 0.999, 21034, 9, 0.57, State.OK, (0.4, 0.6, 0.7, 0.4)),
        ("chat-availability", "globex", 0.999, 18021, 31, -0.7, State.EXHAUSTED, (0, 0, 1.1, 1.7)),
        ("chat-ttft", "acme", 0.95, 28034, 1370, 0.07, State.BURNING, (18.2, 15.1, 4.2, 0.9)),
        ("chat-ttft", "globex", 0.95, 18021, 602, 0.35, State.BURNING, (9.1, 6.8, 2.3, 0.7)),
        ("chat-ttft", "initech", 0.95, 12080, 148, 0.76, State.OK, (0.6, 0.3, 0.2, 0.2)),
        ("chat-ttft", "umbrella", 0.95, 7430, 88, 0.77, State.NO_TRAFFIC, (None, None, 0.1, 0.2)),
        ("embed-latency", "", 0.99, 6820, 20, 0.71, State.STALE, (None, None, None, 0.3)),
    ]  # fmt: skip
    return [_verdict(now, *row) for row in rows]


def _verdict(
    now: datetime,
    slo: str,
    tenant: str,
    objective: float,
    good: int,
    bad: int,
    left: float | None,
    state: State,
    burns: tuple[float | None, ...],
) -> Verdict:
    burn = dict(zip(("5m", "1h", "6h", "3d"), burns, strict=True))
    tiers = (
        TierVerdict(
            "fast", "page", 14.4, timedelta(hours=1), timedelta(minutes=5), burns[1], burns[0],
            (burns[1] or 0) > 14.4 and (burns[0] or 0) > 14.4,
        ),
        TierVerdict(
            "slow", "ticket", 6, timedelta(hours=6), timedelta(minutes=30), burns[2], burns[1],
            (burns[2] or 0) > 6,
        ),
    )  # fmt: skip
    return Verdict(
        slo=slo,
        group={"tenant": tenant} if tenant else {},
        objective=objective,
        window=timedelta(days=30),
        good=good,
        bad=bad,
        excluded=41,
        sli=good / (good + bad) if good + bad else None,
        budget_remaining=left,
        burn=burn,
        coverage=0.998,
        watermark=now - timedelta(minutes=12 if state is State.STALE else 0, seconds=7),
        state=state,
        tiers=tiers,
        bad_reasons={"ttft_slow": bad * 3 // 4, "upstream_error": bad - bad * 3 // 4},
        at=now,
        expires_in=timedelta(hours=3, minutes=12) if state is State.BURNING else None,
        labels={"team": "serving"},
        annotations={"description": "Chat answers start quickly"},
    )


_ROLLUP = """
INSERT INTO {table} SELECT toDateTime(intDiv(toUnixTimestamp(start), {step}) * {step}, 'UTC') AS b,
  tenant, route, model, replica, priority, outcome, outcome_reason, count(),
  sum(ifNull(prompt_tokens, 0)), sum(ifNull(cached_tokens, 0)), sum(ifNull(completion_tokens, 0)),
  countIf(isNull(prompt_tokens)), sum(ifNull(engine_s, 0)), sum(ifNull(duration_ms, 0)),
  CAST(sumMapIf(map(toInt16(floor(log2(ifNull(ttft_ms, 1)) * 8)), toUInt64(1)), ttft_ms > 0),
       'Map(Int16, UInt64)'),
  CAST(sumMap(map(toInt16(floor(log2(ifNull(duration_ms, 1)) * 8)), toUInt64(1))),
       'Map(Int16, UInt64)'),
  1, 0
FROM facts FINAL
GROUP BY b, tenant, route, model, replica, priority, outcome, outcome_reason
"""
