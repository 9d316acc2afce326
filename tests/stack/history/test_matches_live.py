"""A dashboard must not be able to tell a day of history from a day of the live stack."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stack.history.month import history
from stack.history.plan import HistorySettings
from stack.load.generator import run
from stack.load.plan import LoadPlan
from stack.up import parser, running

Shapes = dict[tuple[Any, ...], tuple[set[Any], set[Any]]]


def shapes(requests: Iterable[ExportTraceServiceRequest]) -> Shapes:
    """(service, span, kind, scope, outcome, flags) -> attributes with types, resource's names."""
    found: Shapes = defaultdict(lambda: (set(), set()))
    for request in requests:
        for of_resource in request.resource_spans:
            resource = {a.key: a.value.string_value for a in of_resource.resource.attributes}
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    said = {a.key: a.value for a in span.attributes}
                    reason = said.get("tokenweir.outcome_reason")
                    key = (
                        resource["service.name"],
                        span.name,
                        span.kind,
                        of_scope.scope.name,
                        reason.string_value if reason else "",
                        span.flags,
                    )
                    types = {(name, value.WhichOneof("value")) for name, value in said.items()}
                    found[key][0].update(types)
                    found[key][1].update(resource)
    return found


def test_the_spans_of_history_have_the_shape_of_the_live_stacks(
    collector: Any, tmp_path: Path
) -> None:
    async def scenario() -> Any:
        async with collector() as sink:
            words = ["--data", str(tmp_path), "--otlp", sink.url, "--speed", "50"]
            async with running(parser().parse_args(words)) as facts:
                plan = LoadPlan(facts["url"], facts["tenants"], rate=60, duration_s=1.0, seed=3)
                await run(plan)
                await asyncio.sleep(0.1)
            return sink.requests

    live = shapes(asyncio.run(scenario()))
    settings = HistorySettings(end=datetime(2026, 11, 30, tzinfo=UTC), days=2, requests=3000)
    past = shapes(ExportTraceServiceRequest.FromString(body) for body in history(settings))

    compared = {key for key in live if key[4] in {"", "ok"}}
    assert {key[0] for key in compared} == {"tokenweir-gateway", "tokenweir-router", "vllm"}
    for key in compared:
        # Neither says anything of a kind the other does not; abandoned ones are rare in a second.
        assert live[key][0] - past[key][0] == set(), key
        assert past[key][0] - live[key][0] <= {("error.type", "string_value")}, key
        assert past[key][1] == live[key][1], key
