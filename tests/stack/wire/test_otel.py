import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_current_span

from base.clock import ManualClock
from stack.wire import names
from stack.wire.alive import AliveSpans
from stack.wire.otel import make_tracer, traces_url
from stack.wire.trace_context import extract, inject


def test_spans_outlive_a_collector_that_is_busy_and_are_sent_once(
    collector: Any, eventually: Any
) -> None:
    async def scenario() -> Any:
        async with collector() as sink:
            sink.refuse_with = [503, 429]
            tracer, stop = make_tracer("svc", "i-0", sink.url)
            tracer.start_span("work").end()
            await eventually(lambda: sink.requests)
            await asyncio.to_thread(stop)
            return list(sink.spans("work"))

    [(resource, scope, _)] = asyncio.run(scenario())

    said = {a.key: a.value.string_value for a in resource.attributes}
    assert (said["service.name"], said["service.instance.id"]) == ("svc", "i-0")
    assert scope.name == names.STACK_SCOPE


def test_a_batch_refused_for_good_does_not_hold_up_the_next(
    collector: Any, eventually: Any
) -> None:
    async def scenario() -> Any:
        async with collector() as sink:
            sink.refuse_with = [400]
            tracer, stop = make_tracer("svc", "i-0", sink.url)
            tracer.start_span("bad").end()
            await eventually(lambda: not sink.refuse_with)
            tracer.start_span("good").end()
            await asyncio.to_thread(stop)
            return list(sink.spans("bad")), list(sink.spans("good"))

    bad, good = asyncio.run(scenario())

    assert (len(bad), len(good)) == (0, 1)


def test_the_headers_given_go_with_every_request(collector: Any) -> None:
    async def scenario() -> Any:
        async with collector() as sink:
            headers = {"authorization": "Bearer twk_secret"}
            tracer, stop = make_tracer("svc", "i-0", sink.url, headers=headers)
            tracer.start_span("work").end()
            await asyncio.to_thread(stop)
            return sink.headers, list(sink.spans("work"))

    headers, spans = asyncio.run(scenario())

    assert len(spans) == 1
    assert [h["authorization"] for h in headers] == ["Bearer twk_secret"]
    assert [h["content-type"] for h in headers] == ["application/x-protobuf"]


def test_stopping_does_not_wait_for_a_collector_that_is_away() -> None:
    tracer, stop = make_tracer("svc", "i-0", "http://127.0.0.1:9")
    tracer.start_span("work").end()

    stop()  # the test's time limit is the assertion


def test_a_callee_continues_the_trace_and_an_unsampled_one_stays_unsampled() -> None:
    tracer, stop = make_tracer("svc", "i-0", None)
    parent = tracer.start_span("caller")

    context = extract(inject(parent))
    unsampled = extract({"traceparent": f"00-{1:032x}-{1:016x}-00"})
    stop()

    assert get_current_span(context).get_span_context().span_id == parent.get_span_context().span_id
    assert not tracer.start_span("callee", context=unsampled).is_recording()
    assert not get_current_span(extract({"traceparent": "nonsense"})).get_span_context().is_valid


def test_the_traces_path_is_added_once() -> None:
    assert traces_url("http://c:4318/") == "http://c:4318/v1/traces"
    assert traces_url("http://c:4318/v1/traces") == "http://c:4318/v1/traces"


def test_alive_spans_cover_the_time_without_gap_or_overlap() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    alive = AliveSpans(provider.get_tracer("t"), names.GATEWAY_ROLE, clock)

    for seconds in (1, 10, 0, 7):
        clock.advance(timedelta(seconds=seconds))
        alive.beat()

    first, second, third = exporter.get_finished_spans()
    assert (first.end_time, second.end_time) == (second.start_time, third.start_time)
    assert third.end_time - first.start_time == 18 * 10**9
    assert first.attributes == {names.ROLE: "gateway"}
    assert first.parent is None
