"""What a case is, and the small requests that cases are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

TRACES = "/v1/traces"
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LIMIT = 1 << 20  # of the `receiver` fixture
TRACE_ID, SPAN_ID = bytes(range(1, 17)), bytes(range(1, 9))
START_NS = 1_796_061_254_170_000_000


class Transport(StrEnum):
    PROTOBUF = "http/protobuf"
    JSON = "http/json"
    GRPC = "grpc"


ALL = (Transport.PROTOBUF, Transport.JSON, Transport.GRPC)
HTTP = (Transport.PROTOBUF, Transport.JSON)
BINARY = (Transport.PROTOBUF, Transport.GRPC)
PROTOBUF, JSON, GRPC = ((each,) for each in ALL)


@dataclass(frozen=True, slots=True)
class Taken:
    """200 or OK; so many spans are rejected, for a reason that holds these words."""

    rejected: int = 0
    says: str = ""


@dataclass(frozen=True, slots=True)
class Final:
    """An error that must not be sent again: the HTTP status, the google.rpc code, and words."""

    http: int
    code: int
    says: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


BAD = Final(400, 3)


@dataclass(frozen=True, slots=True)
class Case:
    """One request and what comes of it.

    `body` is a message, encoded as the transport does, or bytes as they are. `logged` is what is on
    disk afterwards: by default the message if it was taken whole and has spans, otherwise nothing.
    """

    rule: str
    name: str
    body: ExportTraceServiceRequest | bytes
    answer: Taken | Final = field(default_factory=Taken)
    logged: ExportTraceServiceRequest | None = None
    on: tuple[Transport, ...] = ALL
    coding: str = ""  # how the client compresses, if it does
    headers: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    method: str = "POST"

    @property
    def expected(self) -> ExportTraceServiceRequest | None:
        if self.logged is not None or self.answer != Taken():
            return self.logged
        if isinstance(self.body, bytes) or not _has_spans(self.body):
            return None
        return self.body


def _has_spans(made: ExportTraceServiceRequest) -> bool:
    return any(scope.spans for each in made.resource_spans for scope in each.scope_spans)


def span(**fields: Any) -> Span:
    given = {"trace_id": TRACE_ID, "span_id": SPAN_ID, "name": "chat"}
    times = {"start_time_unix_nano": START_NS, "end_time_unix_nano": START_NS + 5}
    return Span(**given | times | fields)


def request(*spans: Span, **of_resource: Any) -> ExportTraceServiceRequest:
    """Put spans under one resource and one scope."""
    made = ExportTraceServiceRequest()
    made.resource_spans.add(scope_spans=[{"spans": spans}], **of_resource)
    return made


def one(**fields: Any) -> ExportTraceServiceRequest:
    return request(span(**fields))


def valued(value: AnyValue | None, key: str = "k") -> ExportTraceServiceRequest:
    """Make a request whose one span has one attribute."""
    return one(attributes=[KeyValue(key=key, value=value)])


def text(value: str) -> AnyValue:
    return AnyValue(string_value=value)


def many(*values: AnyValue) -> AnyValue:
    return AnyValue(array_value={"values": values})


def mapped(**members: AnyValue) -> AnyValue:
    pairs = [KeyValue(key=key, value=value) for key, value in members.items()]
    return AnyValue(kvlist_value={"values": pairs})
