"""Is this request one that the store can take? Decided before it is acknowledged.

The engine parses the same bytes later, and cannot ask the sender again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from base.errors import BadInput
from collector.refusal import cut

_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
_LONGEST_NAME = 80
_NO_TRACE = bytes(_TRACE_ID_BYTES)
_NO_SPAN = bytes(_SPAN_ID_BYTES)
_LAST_NANO = 2**32 * 10**9 - 1  # February 2106: the store's buckets are 32 bits of seconds


@dataclass(frozen=True, slots=True)
class Checked:
    """A request without its invalid spans. `complaint` says why the first of them was refused."""

    body: bytes
    spans: int
    rejected: int = 0
    complaint: str = ""


def check(body: bytes) -> Checked:
    """Parse the protobuf and leave out the spans that are not valid.

    Raises BadInput when it is not an ExportTraceServiceRequest at all.
    """
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise BadInput(f"the body is not an ExportTraceServiceRequest: {error}") from error
    return check_message(request, body)


def check_message(request: ExportTraceServiceRequest, body: bytes | None = None) -> Checked:
    """Check a parsed request; `body` is its own encoding, where there is one already."""
    spans, complaints = 0, []
    for span in _spans(request):
        spans += 1
        if (complaint := _complaint(span)) is not None:
            complaints.append(f"span {cut(span.name, _LONGEST_NAME)!r}: {complaint}")
    if not complaints:
        if body is None or len(UnknownFieldSet(request)) or request.ByteSize() != len(body):
            # Fields of a later OTLP, a forgery of the ones that the store adds itself, or a field
            # given twice, of which the engine does not always take the last.
            request.DiscardUnknownFields()
            body = request.SerializeToString()
        return Checked(body, spans)
    _drop_invalid(request)
    request.DiscardUnknownFields()
    return Checked(
        request.SerializeToString(), spans - len(complaints), len(complaints), complaints[0]
    )


def rewritten(body: bytes) -> bytes | None:
    """Write a request anew, each field once and in order; None if it is so, or no request."""
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return None
    request.DiscardUnknownFields()
    plainly: bytes = request.SerializeToString()
    return None if plainly == body else plainly


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            yield from scope_spans.spans


def _complaint(span: Span) -> str | None:
    """Say what is wrong with a span, or None."""
    if len(span.trace_id) != _TRACE_ID_BYTES or span.trace_id == _NO_TRACE:
        return f"trace_id is {len(span.trace_id)} bytes or all zero: it must be 16"
    if len(span.span_id) != _SPAN_ID_BYTES or span.span_id == _NO_SPAN:
        return f"span_id is {len(span.span_id)} bytes or all zero: it must be 8"
    if span.parent_span_id and len(span.parent_span_id) != _SPAN_ID_BYTES:
        return f"parent_span_id is {len(span.parent_span_id)} bytes: it must be 8, or none"
    if not 0 < span.start_time_unix_nano <= _LAST_NANO:
        return "start_time_unix_nano is missing or beyond the year 2105"
    if span.end_time_unix_nano > _LAST_NANO:
        return "end_time_unix_nano is beyond the year 2105"
    return None


def _drop_invalid(request: ExportTraceServiceRequest) -> None:
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            valid = [span for span in scope_spans.spans if _complaint(span) is None]
            if len(valid) != len(scope_spans.spans):
                kept = [Span.FromString(span.SerializeToString()) for span in valid]
                del scope_spans.spans[:]
                scope_spans.spans.extend(kept)
