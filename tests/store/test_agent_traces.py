"""Ten real agent traces, one per framework: tokens are counted in one layer, never twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from store.engine import Engine

FOLDER = Path(__file__).parents[3] / "shared" / "fixtures" / "otlp" / "langfuse-framework-traces"
# Tokens (input + output) and LLM calls; the fixtures' README gives the first.
TRUTH = {
    "agno-2025-06-11": (1_071, 2),
    "autogen-2025-06-06": (44, 1),
    "crewai-2025-07-11": (354, 1),
    "csharp-agent-with-gemini-2026-03-09": (8_461, 3),
    "google-adk-2025-08-28": (76, 2),
    "langgraph-js-2025-10-30": (444, 2),
    "llamaindex-2025-06-05": (94, 1),
    "openai-agents-2025-09-30": (184, 2),
    "pydantic-ai-tools-2025-12-04": (1_524, 4),
    "vertex-ai-2025-08-01": (850, 1),
}

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="fixtures are not beside this checkout")


@pytest.mark.parametrize("name", TRUTH)
def test_an_agent_trace_adds_up_to_the_truth(
    name: str, ingest: Callable[..., int], engine: Engine
) -> None:
    ingest([to_otlp(json.loads((FOLDER / f"{name}.trace.json").read_text()))])

    facts = engine.rows("SELECT prompt_tokens, completion_tokens FROM facts FINAL")
    total = sum(fact["prompt_tokens"] + fact["completion_tokens"] for fact in facts)
    assert (total, len(facts)) == TRUTH[name]


def test_two_instrumentations_that_disagree_are_reported(
    ingest: Callable[..., int], engine: Engine
) -> None:
    ingest([to_otlp(json.loads((FOLDER / "agno-2025-06-11.trace.json").read_text()))])

    rows = engine.rows("SELECT arrayJoin(conflicts) AS note FROM facts FINAL")
    notes = [json.loads(row["note"]) for row in rows]
    outer = sum(note["says"] for note in notes)
    inner = sum(note["taken"] for note in notes)
    assert (outer, inner) == (2_768, 1_071)


def test_tokens_in_the_total_but_in_no_part_are_reported(
    ingest: Callable[..., int], engine: Engine
) -> None:
    ingest([to_otlp(json.loads((FOLDER / "vertex-ai-2025-08-01.trace.json").read_text()))])

    [row] = engine.rows("SELECT arrayJoin(conflicts) AS note FROM facts FINAL")
    note = json.loads(row["note"])
    assert (note["field"], note["says"] - note["taken"]) == ("total_tokens", 1_173)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("pydantic-ai-tools-2025-12-04", [3, None, None, None]),
        ("openai-agents-2025-09-30", [1, None]),
        ("google-adk-2025-08-28", [1, None]),
    ],
)
def test_tools_belong_to_the_model_call_that_asked_for_them(
    name: str, calls: list[int | None], ingest: Callable[..., int], engine: Engine
) -> None:
    ingest([to_otlp(json.loads((FOLDER / f"{name}.trace.json").read_text()))])

    facts = engine.rows("SELECT tool_calls, tool_errors FROM facts FINAL ORDER BY start")
    assert [fact["tool_calls"] for fact in facts] == calls
    assert facts[0]["tool_errors"] == 0


def to_otlp(document: dict[str, Any]) -> bytes:
    """Write a Langfuse export as one OTLP request: the original attributes where it kept them."""
    trace = document["trace"]
    request = ExportTraceServiceRequest()
    for number, seen in enumerate(document.get("observations") or trace["observations"], 1):
        metadata = seen.get("metadata") or {}
        metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
        attributes = dict(metadata.get("attributes") or {})
        attributes.setdefault("langfuse.observation.type", str(seen["type"]).lower())
        if seen.get("model"):
            attributes.setdefault("gen_ai.request.model", seen["model"])
        if not any("usage" in name or "token_count" in name for name in attributes):
            attributes |= _usage(seen.get("usageDetails") or {})
        group = request.resource_spans.add().scope_spans.add()
        group.scope.name = str((metadata.get("scope") or {}).get("name", ""))
        span = group.spans.add()
        span.trace_id = _id(trace["id"], 16)
        span.span_id = _id(seen["id"], 8)
        if seen.get("parentObservationId"):
            span.parent_span_id = _id(seen["parentObservationId"], 8)
        span.name = seen.get("name") or f"span {number}"
        span.start_time_unix_nano = _ns(seen["startTime"])
        span.end_time_unix_nano = _ns(seen.get("endTime") or seen["startTime"])
        for name, value in attributes.items():
            entry = span.attributes.add()
            entry.key = name
            entry.value.string_value = value if isinstance(value, str) else json.dumps(value)
    return request.SerializeToString()


def _usage(details: dict[str, int]) -> dict[str, str]:
    sums = {
        part: sum(count for name, count in details.items() if name.startswith(part) and count)
        for part in ("input", "output")
    }
    return {f"gen_ai.usage.{part}_tokens": str(count) for part, count in sums.items() if count}


def _id(text: str, size: int) -> bytes:
    try:
        raw = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        raw = text.encode()
    return raw[:size].rjust(size, b"\1")


def _ns(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000) * 1_000_000
