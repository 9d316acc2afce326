"""The whole stack in one process, its real pieces, its spans caught by a small OTLP receiver."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stack.up import parser, running

CHAT = "/v1/chat/completions"


class OtlpSink:
    """Collects spans as flat dicts, resource attributes beside the span's own."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.raw = b""
        self.keys: set[str | None] = set()
        self.app = Starlette(routes=[Route("/v1/traces", self.take, methods=["POST"])])

    async def take(self, request: Request) -> Response:
        body = await request.body()
        self.keys.add(request.headers.get("authorization"))
        self.raw += body
        message = ExportTraceServiceRequest.FromString(body)
        for group in message.resource_spans:
            resource = {a.key: _value(a.value) for a in group.resource.attributes}
            for scope in group.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        {
                            "name": span.name,
                            "kind": span.kind,
                            "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                            "start": span.start_time_unix_nano,
                            "end": span.end_time_unix_nano,
                            "resource": resource,
                            **{a.key: _value(a.value) for a in span.attributes},
                        }
                    )
        return Response(b"", media_type="application/x-protobuf")

    def named(self, name: str, **attributes: Any) -> list[dict[str, Any]]:
        return [
            s
            for s in self.spans
            if s["name"] == name and all(s.get(k) == v for k, v in attributes.items())
        ]


def _value(value: Any) -> Any:
    (found,) = MessageToDict(value, preserving_proto_field_name=True).items()
    return int(found[1]) if found[0] == "int_value" else found[1]


async def until(true: Any, within_s: float = 20) -> None:
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def stack(bench: Any, data: Path, *options: str) -> AsyncIterator[tuple[Any, OtlpSink]]:
    sink = OtlpSink()
    otlp = await bench.serve(sink.app)
    args = parser().parse_args(["--data", str(data), "--otlp", otlp, "--speed", "20", *options])
    async with running(args) as facts:
        yield facts, sink


async def ask(bench: Any, facts: Any, prompt: str, tenant: str = "acme", **body: Any) -> Any:
    return await bench.http.post(
        facts["gateway"] + CHAT,
        headers={"authorization": f"Bearer {facts['tenants'][tenant]}"},
        json={
            "model": facts["model"],
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 8,
            **body,
        },
    )


async def test_one_request_is_one_trace_from_the_gateway_to_the_engine(
    bench: Any, tmp_path: Path
) -> None:
    async with stack(bench, tmp_path) as (facts, sink):
        answer = await ask(bench, facts, "hello " * 50, stream=True)
        await until(lambda: sink.named("llm_request") and sink.named(f"POST {CHAT}", kind=2))
        await until(lambda: len({s["trace"] for s in sink.named(f"POST {CHAT}")}) == 1)
        await until(lambda: len(sink.named(f"POST {CHAT}")) == 3)

    by_role = {(s["tokenweir.role"], s["kind"]): s for s in sink.named(f"POST {CHAT}")}
    gateway, server, client = by_role["gateway", 2], by_role["router", 2], by_role["router", 3]
    (engine,) = sink.named("llm_request")
    assert answer.text.endswith("[DONE]\n\n")
    assert gateway["parent"] == ""
    assert server["parent"] == gateway["id"]
    assert client["parent"] == server["id"]
    assert engine["parent"] == client["id"]
    assert {gateway["trace"]} == {s["trace"] for s in (server, client, engine)}
    assert gateway["resource"]["service.name"] == "tokenweir-gateway"
    assert gateway["resource"]["service.instance.id"] == "gw-0"
    assert server["resource"]["service.name"] == "tokenweir-router"
    assert engine["resource"]["service.name"] == "vllm"
    assert engine["resource"]["service.instance.id"] == client["tokenweir.replica"]
    assert gateway["tenant.id"] == "acme"
    assert gateway["gen_ai.usage.input_tokens"] == engine["gen_ai.usage.prompt_tokens"]
    assert gateway["gen_ai.usage.output_tokens"] == engine["gen_ai.usage.completion_tokens"] == 8
    assert (
        gateway["gen_ai.server.time_to_first_token"]
        >= (engine["gen_ai.latency.time_to_first_token"])
    )
    assert gateway["start"] <= server["start"] <= client["start"]


async def test_every_process_says_that_it_is_alive_and_no_key_is_in_a_span(
    bench: Any, tmp_path: Path
) -> None:
    async with stack(bench, tmp_path, "--engines", "2") as (facts, sink):
        await ask(bench, facts, "hi")

    # The last beat comes with the stop, so that the spans cover the whole life.
    alive = {
        (s["tokenweir.role"], s["resource"]["service.instance.id"])
        for s in sink.named("tokenweir.alive")
    }
    assert alive == {("gateway", "gw-0"), ("router", "rt-0"), ("engine", "r0"), ("engine", "r1")}
    for key in facts["tenants"].values():
        assert key.encode() not in sink.raw


async def test_the_fleet_grows_and_shrinks_behind_the_gateway(bench: Any, tmp_path: Path) -> None:
    async with stack(bench, tmp_path, "--engines", "1", "--cold-start", "0.3") as (facts, sink):
        put = await bench.http.put(
            f"{facts['fleet']}/replicas", json={"desired": 2, "lease_id": "L", "by": "test"}
        )
        assert put.json()["pending"] == 1
        answers = []
        while (await bench.http.get(f"{facts['fleet']}/replicas")).json()["ready"] < 2:
            answers.append(await ask(bench, facts, "hi"))
        answers += [await ask(bench, facts, "hi") for _ in range(10)]
        await bench.http.put(f"{facts['fleet']}/replicas", json={"desired": 1})
        answers += [await ask(bench, facts, "hi") for _ in range(10)]

    assert {a.status_code for a in answers} == {200}
    replicas = {s["tokenweir.replica"] for s in sink.spans if "tokenweir.replica" in s}
    assert replicas == {"r0", "r1"}
    assert len(sink.named("llm_request")) == len(answers)
    assert len(sink.named(f"POST {CHAT}", **{"tokenweir.role": "gateway"})) == len(answers)


async def test_the_registry_knows_the_model_and_the_gateway_refuses_others(
    bench: Any, tmp_path: Path
) -> None:
    async with stack(bench, tmp_path) as (facts, _):
        listed = (await bench.http.get(f"{facts['registry']}/models")).json()["models"]
        refused = await ask(bench, facts, "hi", model="gpt-4")

    assert listed == [
        {"name": facts["model"], "digests": {"engine": "vllm-0.32.0"}, "required": []}
    ]
    assert refused.status_code == 404


async def test_every_process_presents_the_collectors_key(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "otlp-key").write_text("twk_secret\n")
    options = ("--otlp-key-file", str(tmp_path / "otlp-key"), "--cold-start", "0.2")
    async with stack(bench, tmp_path, *options) as (facts, sink):
        await ask(bench, facts, "hi")

    assert {s["tokenweir.role"] for s in sink.named("tokenweir.alive")} == {
        "gateway",
        "router",
        "engine",
    }
    assert sink.named("llm_request")
    assert sink.keys == {"Bearer twk_secret"}
    assert b"twk_secret" not in sink.raw


async def test_a_gateway_open_to_the_network_is_warned_of_once(
    bench: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = ("--listen", "0.0.0.0:0", "--pager", "0.0.0.0:0", "--engines", "1")
    async with stack(bench, tmp_path, *options):
        pass

    said = [r.getMessage() for r in caplog.records if "open_to_the_network" in r.getMessage()]
    assert len(said) == 2
    assert [line for line in said if "piece=gateway" in line] == [
        'open_to_the_network piece=gateway listen=0.0.0.0:0 without_key="/metrics /policy"'
    ]


@pytest.mark.slow
async def test_the_program_prints_one_line_serves_and_drains_on_sigterm(
    bench: Any, tmp_path: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "stack.up", "--data", str(tmp_path), "--engines", "1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TOKENWEIR_LOG_LEVEL": "DEBUG"},
    )
    try:
        assert process.stdout is not None
        facts = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
        answer = asyncio.create_task(ask(bench, facts, "hi", stream=True, max_tokens=100))
        await asyncio.sleep(0.15)
        process.send_signal(signal.SIGTERM)

        assert (await answer).text.endswith("[DONE]\n\n")
        rest, errors = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()

    assert facts["ready"] is True
    assert process.returncode == 0
    assert rest == b""
    assert b"sk-" not in errors
