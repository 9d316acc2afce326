"""The OpenTelemetry SDK's own exporters against the real receiver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from collector.keys import Role

LogOf = Callable[[Path], list[tuple[str, str, Any]]]


def emit(exporter: SpanExporter) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("chat") as span:
        span.set_attribute("gen_ai.request.model", "m")
        span.set_attribute("gen_ai.response.finish_reasons", ["stop", "length"])
        span.add_event("first token")
    provider.shutdown()


def only_span(log: list[tuple[str, str, Any]]) -> Any:
    [(_, _, request)] = log[-1:]
    return request.resource_spans[0].scope_spans[0].spans[0]


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_http_exporter_s_spans_arrive(
    receiver: Any, log_of: LogOf, compression: Compression
) -> None:
    emit(HttpExporter(f"{receiver.http}/v1/traces", compression=compression))

    span = only_span(log_of(receiver.data))
    assert (span.name, len(span.attributes), span.events[0].name) == ("chat", 2, "first token")


def test_the_grpc_exporter_s_spans_arrive(receiver: Any, log_of: LogOf) -> None:
    exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
    before = len(log_of(receiver.data))

    emit(exporters.OTLPSpanExporter(receiver.grpc, insecure=True))

    assert len(log_of(receiver.data)) == before + 1
    assert only_span(log_of(receiver.data)).name == "chat"


def test_the_exporter_sends_its_key(
    receivers: Any, tmp_path: Path, log_of: LogOf, new_key: Callable[..., str]
) -> None:
    key = new_key(tmp_path / "data", "app", Role.INGEST, "acme")
    receiver = receivers(tmp_path / "data")

    emit(HttpExporter(f"{receiver.http}/v1/traces", headers={"authorization": f"Bearer {key}"}))

    assert log_of(receiver.data)[0][:2] == ("acme", "key:app")
