"""OTLP trace requests as the engine reads them: schema, landing table, and our fields around them.

The schema names what is kept of ExportTraceServiceRequest. Arrays, maps and the like are declared
as bytes (the wire type is the same), because the engine has no recursive types: they are kept
whole, at any depth, as protobuf in base64.
"""

from __future__ import annotations

from dataclasses import dataclass

from store.otlp_split import varint

LANDING = "otlp_records"
MESSAGE = "Record"

SCHEMA = """syntax = "proto3";
message AnyValue {
  oneof value {
    string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;
    bytes array_value = 5; bytes kvlist_value = 6; bytes bytes_value = 7;
  }
}
message KeyValue { string key = 1; AnyValue value = 2; }
message Resource { repeated KeyValue attributes = 1; }
message Scope { string name = 1; string version = 2; }
message Event { fixed64 time_unix_nano = 1; string name = 2; repeated KeyValue attributes = 3; }
message Status { string message = 2; int32 code = 3; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5; int32 kind = 6;
  fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
  repeated KeyValue attributes = 9; repeated Event events = 11; Status status = 15;
}
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message TracesData { repeated ResourceSpans resource_spans = 1; }
message Record {
  string credential_tenant = 1; fixed64 received_unix_nano = 2; string source = 3; uint64 seq = 4;
  TracesData traces = 5;
}
"""

# Scalars are read as text. The engine sets `value` to the name of the oneof's member that was sent
# (input_format_protobuf_oneof_presence), so an absent value is told from a zero.
_VALUE = (
    "Tuple(value Enum8('none' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, "
    "'double_value' = 4, 'array_value' = 5, 'kvlist_value' = 6, 'bytes_value' = 7), "
    "string_value String, bool_value String, int_value String, double_value String, "
    "array_value String, kvlist_value String, bytes_value String)"
)
ATTRIBUTES = f"Array(Tuple(key String, value {_VALUE}))"
_SPAN = (
    "Tuple(trace_id String, span_id String, parent_span_id String, name String, kind Int32, "
    "start_time_unix_nano UInt64, end_time_unix_nano UInt64, "
    f"attributes {ATTRIBUTES}, "
    f"events Array(Tuple(time_unix_nano UInt64, name String, attributes {ATTRIBUTES})), "
    "status Tuple(message String, code Int32))"
)
LANDING_TABLE = f"""
CREATE TABLE IF NOT EXISTS {LANDING} (
  traces Tuple(resource_spans Array(Tuple(
    resource Tuple(attributes {ATTRIBUTES}),
    scope_spans Array(Tuple(scope Tuple(name String, version String), spans Array({_SPAN})))
  ))),
  credential_tenant String,
  received_unix_nano UInt64,
  source String,
  seq UInt64
) ENGINE = Null"""

_CREDENTIAL_TENANT, _RECEIVED, _SOURCE, _SEQ, _TRACES = 1, 2, 3, 4, 5
_BYTES, _FIXED64, _VARINT = 2, 1, 0


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One export request and what the receiver knows about it.

    `tenant` is that of an untrusted credential; '' lets the spans name their own.
    """

    body: bytes
    tenant: str
    source: str
    received_ns: int


def framed(record: SpanRecord, seq: int) -> bytes:
    """Frame one record for `FORMAT Protobuf`: its length, our own fields, the body.

    The body is a field of our message, so nothing a client writes in it can pass for ours.
    """
    head = (
        _text(_CREDENTIAL_TENANT, record.tenant)
        + _tag(_RECEIVED, _FIXED64)
        + record.received_ns.to_bytes(8, "little")
        + _text(_SOURCE, record.source)
        + _tag(_SEQ, _VARINT)
        + varint(seq)
        + _tag(_TRACES, _BYTES)
        + varint(len(record.body))
    )
    return varint(len(head) + len(record.body)) + head + record.body


def _text(field: int, text: str) -> bytes:
    raw = text.encode()
    return _tag(field, _BYTES) + varint(len(raw)) + raw


def _tag(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)
