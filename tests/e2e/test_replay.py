"""`tokenweir replay`: real captures and every file form into a running or a temporary instance."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from base.durations import parse_instant
from tests.e2e.conftest import Start
from tests.e2e.instance import ROOT, Instance, command
from tests.e2e.otlp import SECOND, export, gateway_span
from tests.e2e.traffic import BASE, BASE_NS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("e2e-replay"), pytest.mark.timeout(300)]

FIXTURES = ROOT.parent / "shared" / "fixtures" / "vllm"
needs_captures = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason=f"the captures of vLLM are not at {FIXTURES}"
)
SCENARIOS = ("long-grpc", "router-errors", "abort-grpc")


def spans_of(scenario: str) -> Iterator[Any]:
    for file in sorted((FIXTURES / scenario).glob("*.binpb")):
        request = ExportTraceServiceRequest.FromString(file.read_bytes())
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                yield from scope.spans


def client_of(scenario: str) -> list[dict[str, Any]]:
    lines = (FIXTURES / scenario / "client.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def said(output: str) -> int:
    """Read the count of spans that a replay ends with."""
    found = re.search(r"([\d,]+) spans from", output)
    assert found, output
    return int(found[1].replace(",", ""))


def call(seed: int, tenant: str) -> ExportTraceServiceRequest:
    rng = random.Random(seed)
    start = BASE_NS + seed * SECOND
    return export([gateway_span(rng.randbytes(16), rng.randbytes(8), start, 20, tenant=tenant)])


def as_json(request: ExportTraceServiceRequest) -> str:
    """Write OTLP/JSON: protobuf's JSON, with ids in hex and enums as numbers."""
    document = MessageToDict(request, use_integers_for_enums=True)

    def hexed(node: Any) -> Any:
        if isinstance(node, dict):
            return {
                key: base64.b64decode(value).hex() if key in _IDS else hexed(value)
                for key, value in node.items()
            }
        return [hexed(each) for each in node] if isinstance(node, list) else node

    return json.dumps(hexed(document))


_IDS = {"traceId", "spanId", "parentSpanId"}


@needs_captures
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_capture_gives_the_requests_that_the_client_saw(running: Instance, scenario: str) -> None:
    # Once by the address of OTLP, and again by that of the pages: the second changes nothing.
    replayed = [
        command("replay", FIXTURES / scenario, "--to", running.endpoints[name])
        for name in ("otlp_http", "http")
    ]
    assert [each.returncode for each in replayed] == [0, 0], replayed[0].stderr
    expected = sum(1 for _ in spans_of(scenario))
    assert [said(each.stdout) for each in replayed] == [expected, expected]

    engines = {
        span.trace_id.hex(): {a.key: a.value for a in span.attributes}
        for span in spans_of(scenario)
        if span.name == "llm_request"
    }
    compared = 0
    for seen in client_of(scenario):
        if seen["trace"] != "parent":
            continue
        trace = running.get(f"/api/v1/traces/{seen['trace_id']}")
        assert trace.status_code == 200, (seen["name"], trace.text)
        [fact] = trace.json()["requests"]
        engine = engines.get(seen["trace_id"])
        status = seen.get("status") or 0  # none: the client left before the answer began
        if status == 200 and engine and not seen.get("aborted"):
            usage = seen.get("usage")
            if usage:
                assert fact["prompt_tokens"] == usage["prompt_tokens"], seen["name"]
                assert fact["completion_tokens"] == usage["completion_tokens"], seen["name"]
            ttft_ms = engine["gen_ai.latency.time_to_first_token"].double_value * 1000
            assert fact["ttft_ms"] == pytest.approx(ttft_ms, abs=2)
            assert fact["outcome"] == "good", seen["name"]
            compared += 1
        elif seen.get("aborted"):
            assert fact["outcome"] != "bad", "a caller who leaves is no failure of the service"
            compared += 1
        elif 400 <= status < 500:
            assert fact["outcome"] == "excluded", (seen["name"], fact)
            assert fact["prompt_tokens"] is None
            compared += 1
        begins = [span.start_time_unix_nano / 1e9 for span in spans_of(scenario)
                  if span.trace_id.hex() == seen["trace_id"]]  # fmt: skip
        assert abs(min(begins) - seen["t_send"]) < 1, "original timestamps are kept"
    assert compared >= 10


@needs_captures
def test_a_replay_into_a_folder_runs_an_instance_for_it(tmp_path: Path, start: Start) -> None:
    scenario = FIXTURES / SCENARIOS[0]
    replayed = command("replay", scenario, "--data", tmp_path / "data")
    assert replayed.returncode == 0, replayed.stderr
    assert "running one for the replay" in replayed.stderr
    assert said(replayed.stdout) == sum(1 for _ in spans_of(SCENARIOS[0]))
    assert not (tmp_path / "data" / "endpoints.json").exists()

    instance = start()
    stored = instance.requests()
    parents = {each["trace_id"] for each in client_of(SCENARIOS[0]) if each["trace"] == "parent"}
    assert parents <= {fact["trace_id"] for fact in stored}
    again = command("replay", scenario, "--data", tmp_path / "data")
    assert again.returncode == 0, again.stderr
    assert "running one for the replay" not in again.stderr
    assert instance.requests() == stored


def test_every_form_of_file_is_read(running: Instance, tmp_path: Path) -> None:
    requests = {name: call(number, f"form-{number}") for number, name in enumerate(
        ["a.binpb", "b.binpb.gz", "c.json", "d.json.gz", "e.jsonl", "f.jsonl.gz"])}  # fmt: skip
    for name, request in requests.items():
        data = request.SerializeToString() if "binpb" in name else as_json(request).encode()
        if "jsonl" in name:
            data += b"\n" + as_json(call(50 + len(name), f"second-{name}")).encode() + b"\n"
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (tmp_path / "notes.txt").write_text("not telemetry")

    replayed = command("replay", tmp_path, "--to", running.endpoints["http"])

    assert replayed.returncode == 0, replayed.stderr
    assert said(replayed.stdout) == 8
    assert "from 6 files" in replayed.stdout
    assert "skipped" in replayed.stderr
    assert "notes.txt" in replayed.stderr
    for number in range(6):
        [fact] = running.requests(tenant=f"form-{number}")
        begun = parse_instant(fact["start"])
        assert begun == BASE + timedelta(seconds=number), "original timestamps"
        assert fact["duration_ms"] == 20


def test_what_cannot_be_read_is_named_and_the_rest_is_sent(
    running: Instance, tmp_path: Path
) -> None:
    (tmp_path / "good.binpb").write_bytes(call(20, "rest").SerializeToString())
    (tmp_path / "garbage.binpb").write_bytes(b"\xff\xfe\xfd" * 20)
    (tmp_path / "torn.json").write_text('{"resourceSpans": [')
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"{}" * 50)[:20])
    (tmp_path / "mixed.jsonl").write_text(f"{as_json(call(21, 'rest'))}\nnonsense\n")

    replayed = command("replay", tmp_path, "--to", running.endpoints["http"])
    missing = command("replay", tmp_path / "nowhere", "--to", running.endpoints["http"])
    nowhere = command("replay", tmp_path / "good.binpb")

    assert replayed.returncode == 1
    for name in ("garbage.binpb", "torn.json", "cut.jsonl.gz", "mixed.jsonl"):
        assert name in replayed.stderr
    assert "good.binpb" not in replayed.stderr
    assert said(replayed.stdout) == 2
    assert len(running.requests(tenant="rest")) == 2
    assert missing.returncode == 1
    assert "nowhere does not exist" in missing.stderr
    assert nowhere.returncode == 2
    assert "--to" in nowhere.stderr
    assert "--data" in nowhere.stderr
