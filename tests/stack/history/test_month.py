import asyncio
import hashlib
import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from base.errors import Permanent
from stack.history.month import body_count, history
from stack.history.plan import BadDeploy, Flood, HistorySettings, SlowReplica, plan, version_at
from stack.history.send import send_history
from stack.wire import names

END = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
CALM = HistorySettings(end=END, days=2, requests=1500, floods=(), slow_replicas=(), bad_deploys=())


def spans(settings: HistorySettings) -> list[tuple[dict[str, Any], str, Any]]:
    """Every span as (resource attributes, scope, span)."""
    found = []
    for body in history(settings):
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = values(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                found += [(resource, of_scope.scope.name, span) for span in of_scope.spans]
    return found


def values(attributes: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}


def role(span: Any) -> Any:
    return values(span.attributes).get(names.ROLE, "engine" if span.name == "llm_request" else "")


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    def digest(settings: HistorySettings) -> str:
        return hashlib.sha256(b"".join(history(settings))).hexdigest()

    assert digest(CALM) == digest(CALM)
    assert digest(CALM) != digest(replace(CALM, seed=8))


def test_what_was_encoded_by_hand_is_what_protobuf_would_have_written() -> None:
    for body in history(CALM):
        request = ExportTraceServiceRequest.FromString(body)
        assert request.SerializeToString() == body


def test_there_is_one_body_for_every_three_hours_in_order_of_time() -> None:
    bodies = list(history(CALM))
    ends = []
    for body in bodies:
        request = ExportTraceServiceRequest.FromString(body)
        ends.append([s.end_time_unix_nano for r in request.resource_spans
                     for c in r.scope_spans for s in c.spans])  # fmt: skip

    assert len(bodies) == body_count(CALM) == 16
    assert all(max(a) <= max(b) for a, b in itertools.pairwise(ends))
    assert max(map(max, ends)) <= END.timestamp() * 1e9
    assert min(map(min, ends)) >= (END - timedelta(days=2)).timestamp() * 1e9


def test_each_answered_request_has_a_gateway_router_and_engine_span_in_one_trace() -> None:
    by_trace = defaultdict(list)
    for _, _, span in spans(CALM):
        if span.name != names.ALIVE_SPAN:
            by_trace[span.trace_id].append(span)

    shapes = Counter(
        tuple(sorted((role(span), span.kind) for span in trace)) for trace in by_trace.values()
    )
    whole = (("engine", 2), ("gateway", 2), ("router", 2), ("router", 3))
    assert shapes[whole] > 0.97 * len(by_trace)
    assert set(shapes) <= {whole, (("gateway", 2),), (("gateway", 2), ("router", 2), ("router", 3))}
    for trace in by_trace.values():
        ids = {span.span_id for span in trace}
        roots = [span for span in trace if not span.parent_span_id]
        assert [role(span) for span in roots] == ["gateway"]
        assert all(span.parent_span_id in ids for span in trace if span.parent_span_id)


def test_a_child_lies_within_its_parent() -> None:
    everything = [span for _, _, span in spans(CALM)]
    by_id = {(span.trace_id, span.span_id): span for span in everything}

    for span in everything:
        assert span.start_time_unix_nano < span.end_time_unix_nano
        if span.parent_span_id:
            parent = by_id[span.trace_id, span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano


def test_the_layers_agree_on_tokens_and_ids() -> None:
    by_trace: defaultdict[bytes, dict[str, Any]] = defaultdict(dict)
    for _, _, span in spans(CALM):
        by_trace[span.trace_id][role(span)] = values(span.attributes)

    both = [trace for trace in by_trace.values() if {"gateway", "engine"} <= set(trace)]
    assert both
    for trace in both:
        gateway, engine = trace["gateway"], trace["engine"]
        assert gateway[names.INPUT_TOKENS] == engine[names.ENGINE_PROMPT_TOKENS]
        assert gateway[names.OUTPUT_TOKENS] == engine[names.ENGINE_COMPLETION_TOKENS]
        assert gateway[names.REQUEST_ID] in engine[names.REQUEST_ID]
        if gateway[names.STREAM]:
            overhead = gateway[names.SERVER_TTFT] - engine[names.ENGINE_TTFT]
            assert 0 < overhead < 0.01


def test_every_process_is_alive_all_the_time() -> None:
    alive = defaultdict(list)
    for resource, _, span in spans(CALM):
        if span.name == names.ALIVE_SPAN:
            alive[resource[names.SERVICE_NAME], resource[names.SERVICE_INSTANCE]].append(span)

    assert sorted(alive) == [
        ("tokenweir-gateway", "gw-0"),
        ("tokenweir-router", "rt-0"),
        ("vllm", "r0"),
        ("vllm", "r1"),
    ]
    for beats in alive.values():
        covered = sum(b.end_time_unix_nano - b.start_time_unix_nano for b in beats)
        assert covered == 2 * 86_400 * 10**9
    hardware = values(alive["vllm", "r0"][0].attributes)
    assert (hardware[names.GPU_TYPE], hardware[names.GPU_COUNT]) == ("h100", 4)


def test_nights_are_quieter_than_afternoons() -> None:
    hours = Counter(
        datetime.fromtimestamp((END - timedelta(days=2)).timestamp() + p.at, UTC).hour
        for p in plan(replace(CALM, requests=6000))
    )

    assert max(hours.values()) > 1.5 * min(hours.values())


def test_a_flood_makes_others_wait() -> None:
    flooded = replace(CALM, floods=(Flood("umbrella", 1.0, 100, 3.0, 7000),))

    waits = [
        values(span.attributes)[names.ENGINE_QUEUE]
        for _, _, span in spans(flooded)
        if span.name == "llm_request"
    ]

    assert max(waits) > 5
    assert sum(wait > 1 for wait in waits) > 50


def test_a_slow_replica_is_slow_while_it_lasts() -> None:
    slow = replace(CALM, slow_replicas=(SlowReplica(1, 1.0, 3 * 3600, 5.0),))
    begin = (END - timedelta(days=1)).timestamp() * 1e9

    per_token = defaultdict(list)
    for resource, _, span in spans(slow):
        said = values(span.attributes)
        if span.name == "llm_request" and said[names.ENGINE_COMPLETION_TOKENS] > 20:
            inside = begin < span.start_time_unix_nano < begin + 2.9 * 3600 * 1e9
            pace = said[names.ENGINE_DECODE] / (said[names.ENGINE_COMPLETION_TOKENS] - 1)
            per_token[resource[names.SERVICE_INSTANCE], inside].append(pace)

    def mean(key: tuple[str, bool]) -> float:
        return sum(per_token[key]) / len(per_token[key])

    assert mean(("r1", True)) == pytest.approx(5 * mean(("r1", False)), rel=0.1)
    assert mean(("r0", True)) == pytest.approx(mean(("r0", False)), rel=0.1)


def test_a_bad_deploy_fails_requests_of_its_version_only() -> None:
    deployed = replace(CALM, bad_deploys=(BadDeploy("2.0.0", "2.0.1", 1.0, 6 * 3600, 0.3),))

    failures, versions = Counter[str](), Counter[str]()
    for resource, _, span in spans(deployed):
        if role(span) == "gateway" and span.name != names.ALIVE_SPAN:
            version = resource[names.SERVICE_VERSION]
            versions[version] += 1
            failures[version] += values(span.attributes)[names.STATUS] == 500

    assert set(versions) == {"0.9", "2.0.0", "2.0.1"}
    assert failures["2.0.0"] == pytest.approx(0.3 * versions["2.0.0"], rel=0.4)
    assert failures["0.9"] == failures["2.0.1"] == 0
    assert version_at(deployed, 0) == "0.9"


def test_history_is_sent_whole_to_a_collector_that_is_busy_at_first(collector: Any) -> None:
    small = replace(CALM, requests=200)
    seen: list[int] = []

    async def scenario() -> Any:
        async with collector() as sink:
            sink.refuse_with = [503]
            report = await asyncio.to_thread(
                send_history, history(small), sink.url, progress=seen.append
            )
            return report, len(sink.requests)

    report, received = asyncio.run(scenario())

    assert report.bodies == received == seen[-1] == 16
    assert report.retries == 1


def test_a_collector_that_refuses_for_good_ends_the_sending(collector: Any) -> None:
    async def scenario() -> None:
        async with collector() as sink:
            sink.refuse_with = [401] * 16
            await asyncio.to_thread(send_history, history(replace(CALM, requests=50)), sink.url)

    with pytest.raises(Permanent, match="status 401"):
        asyncio.run(scenario())
