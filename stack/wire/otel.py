"""How every process of the reference stack sends its spans: OTLP over HTTP, patiently.

Ending a span only puts it in a bounded queue, so telemetry never slows a request. A thread sends
the queue once a second and keeps trying while the collector is away; when the queue overflows the
oldest spans are lost, as with any OpenTelemetry SDK.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import httpx
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Tracer

from base.outbound import http_client
from base.selfmon import Log
from stack.wire import names

log = Log(__name__)

SCHEDULE_MS = 1000
QUEUE_SPANS = 65_536
BATCH_SPANS = 1024
TRY_S = 5.0
MAX_BACKOFF_S = 5.0
_TEMPORARY = {408, 429, 502, 503, 504}


def make_tracer(
    service: str,
    instance: str,
    otlp_url: str | None,
    resource_attributes: Mapping[str, str] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    scope: str = names.STACK_SCOPE,
) -> tuple[Tracer, Callable[[], None]]:
    """Make a tracer for one process or replica, and the call that flushes and stops it."""
    provider, stop = make_provider(
        service, instance, otlp_url, resource_attributes, headers=headers
    )
    return provider.get_tracer(scope), stop


def make_provider(
    service: str,
    instance: str,
    otlp_url: str | None,
    resource_attributes: Mapping[str, str] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> tuple[TracerProvider, Callable[[], None]]:
    """Make the source of tracers of several scopes, and the call that flushes and stops them.

    `otlp_url` is a collector's base address such as http://127.0.0.1:4318; None makes spans that
    go nowhere (their ids still travel). `headers` go with every request, a key for example. The
    stopping call tries once more to send what is queued and returns within a few seconds even when
    nobody answers.
    """
    resource = Resource.create(
        {
            names.SERVICE_NAME: service,
            names.SERVICE_INSTANCE: instance,
            **(resource_attributes or {}),
        }
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    if otlp_url is None:
        return provider, provider.shutdown
    exporter = PatientExporter(traces_url(otlp_url), headers)
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=QUEUE_SPANS,
            schedule_delay_millis=SCHEDULE_MS,
            max_export_batch_size=BATCH_SPANS,
        )
    )

    def stop() -> None:
        exporter.hurry()
        provider.shutdown()

    return provider, stop


def traces_url(base: str) -> str:
    """Complete a collector's base address with the traces path, unless it is there already."""
    return base if base.endswith("/v1/traces") else base.rstrip("/") + "/v1/traces"


def unix_nano(moment: datetime) -> int:
    """Convert to the unit of span times without the rounding of a float."""
    return round(moment.timestamp() * 1_000_000) * 1000


class PatientExporter(SpanExporter):
    """Sends a batch until the collector takes it, refuses it for good, or the process stops."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        client: httpx.Client | None = None,
    ) -> None:
        self._url = url
        self._headers = {**(headers or {}), "content-type": "application/x-protobuf"}
        self._client = client or http_client(total_s=TRY_S)
        self._hurry = threading.Event()
        self._gave_up = False
        self.lost_spans = 0

    def hurry(self) -> None:
        """Stop waiting between tries: from now on the first failure is the last."""
        self._hurry.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._gave_up:
            return self._lose(spans, "stopping")
        body = encode_spans(spans).SerializeToString()
        pause = 0.25
        while True:
            reason, after = self._send(body)
            if reason is None:
                return SpanExportResult.SUCCESS
            if after is None:
                return self._lose(spans, reason)
            if self._hurry.wait(min(MAX_BACKOFF_S, max(after, pause))):
                self._gave_up = True
                return self._lose(spans, reason)
            pause *= 2

    def shutdown(self) -> None:
        self._client.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002  nothing kept here
        return True

    def _send(self, body: bytes) -> tuple[str | None, float | None]:
        """Try once: (None, _) when taken, (why, seconds to wait) or (why, None) when hopeless."""
        try:
            answer = self._client.post(self._url, content=body, headers=self._headers)
        except httpx.TransportError as error:
            return type(error).__name__, 0.0
        if answer.is_success:
            return None, None
        why = f"status {answer.status_code}"
        if answer.status_code not in _TEMPORARY:
            return why, None
        asked = answer.headers.get("retry-after", "0")
        return why, float(asked) if asked.isdigit() else 0.0

    def _lose(self, spans: Sequence[ReadableSpan], reason: str) -> SpanExportResult:
        self.lost_spans += len(spans)
        log.warning("spans_lost", count=len(spans), reason=reason)
        return SpanExportResult.FAILURE
