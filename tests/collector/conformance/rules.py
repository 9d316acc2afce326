"""The sentences that the cases check, in our words, each with the place where it is written.

OTLP is version 1.11 of the specification and of opentelemetry-proto. ProtoJSON is
protobuf.dev/programming-guides/json; a name such as `OneofFieldDuplicate` is that of a test in
protobuf's own conformance suite. "Ours" marks a sentence where the specification leaves a choice;
docs/telemetry.md says what was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

OTLP = "OTLP 1.11"
TRACE_PROTO = "trace.proto 1.11"
COMMON_PROTO = "common.proto 1.11"
PROTOBUF = "proto3 encoding"
JSON = "ProtoJSON"


@dataclass(frozen=True, slots=True)
class Rule:
    source: str
    section: str
    says: str
    group: str


def _rules(group: str, **rules: tuple[str, str, str]) -> dict[str, Rule]:
    return {name: Rule(*rule, group) for name, rule in rules.items()}


RULES: dict[str, Rule] = {
    **_rules(
        "answers",
        full_success=(
            OTLP,
            "Full Success",
            "taken: ExportTraceServiceResponse, no partial_success",
        ),
        empty_request=(OTLP, "Full Success", "a request without data is answered with success"),
        empty_envelope=(OTLP, "Empty Telemetry Envelopes", "receivers may ignore empty envelopes"),
        partial_success=(OTLP, "Partial Success", "taken in part: 200 with rejected_spans"),
        partial_message=(OTLP, "Partial Success", "error_message says why, in English"),
        bad_data=(OTLP, "Bad Data", "what cannot be decoded: 400 and a BadRequest, for good"),
        bad_data_grpc=(OTLP, "OTLP/gRPC Failures", "for good: INVALID_ARGUMENT is recommended"),
        status_body=(OTLP, "OTLP/HTTP Failures", "every 4xx and 5xx has a Status, with a message"),
        same_type=(OTLP, "OTLP/HTTP Response", "the answer has the request's Content-Type"),
        all_or_part=("ours", "Partial Success", "all spans invalid: still 200, all rejected"),
    ),
    **_rules(
        "HTTP",
        post=(OTLP, "OTLP/HTTP Request", "data come by POST"),
        path=(OTLP, "OTLP/HTTP Request", "the path of traces is /v1/traces"),
        other_signals=(OTLP, "OTLP/HTTP Request", "metrics, logs, profiles: paths of their own"),
        type_decides=(OTLP, "OTLP/HTTP Connection", "one port; Content-Type chooses the decoder"),
        protobuf_type=(OTLP, "Binary Protobuf Encoding", "application/x-protobuf"),
        json_type=(OTLP, "JSON Protobuf Encoding", "application/json"),
        gzip=(OTLP, "Protocol Details", "servers must take gzip and no compression"),
        more_codings=("ours", "Protocol Details", "zstd and deflate as well"),
        codings=("RFC 9110", "8.4 Content-Encoding", "case does not matter; x-gzip is gzip"),
        members=("RFC 1952 / 8878", "2.2 / 3", "members, or frames, may follow one another"),
        wrong_coding=("RFC 9110", "15.5.16", "an unknown coding or type: 415, with what is taken"),
        body_limit=(OTLP, "OTLP/HTTP Request", "the limit counts decompressed bytes; 413, final"),
        http_semantics=(OTLP, "All Other Responses", "anything else as HTTP has it"),
        allow=("RFC 9110", "15.5.6", "405 says which methods are allowed"),
        cors=("ours", "OPTIONS", "browsers are not served: no CORS"),
        keep_alive=(OTLP, "OTLP/HTTP Connection", "connections are kept for further requests"),
        pipelining=("RFC 9112", "9.3.2", "answers come in the order of pipelined requests"),
        chunked=("RFC 9112", "7.1", "a body may come in chunks, without a length"),
        expect=("RFC 9110", "10.1.1", "100 before the body is read, or the final answer"),
        header_case=("RFC 9110", "5.1", "names of header fields have no case"),
        framing=("RFC 9112", "6.3", "a message whose length is unclear is refused"),
    ),
    **_rules(
        "gRPC",
        service=(OTLP, "OTLP/gRPC", "TraceService/Export, unary"),
        grpc_gzip=(OTLP, "Protocol Details", "servers must take gzip"),
        grpc_limit=(OTLP, "OTLP/gRPC Request", "too large: RESOURCE_EXHAUSTED, not retryable"),
        concurrent=(OTLP, "OTLP/gRPC Concurrent Requests", "many calls at once on a channel"),
        unimplemented=("gRPC", "Status codes", "an unknown method is UNIMPLEMENTED"),
        deadline=("gRPC", "Deadlines", "a call ends at its deadline; the server goes on"),
        metadata=("gRPC", "PROTOCOL-HTTP2", "metadata names are lower case; values may be binary"),
    ),
    **_rules(
        "retries",
        retryable_http=(OTLP, "Retryable Response Codes", "only 429, 502, 503 and 504"),
        retryable_grpc=(OTLP, "OTLP/gRPC Failures", "table of codes; the rest is final"),
        throttling=(OTLP, "OTLP/HTTP Throttling", "429 or 503, with Retry-After in seconds"),
        throttling_grpc=(OTLP, "OTLP/gRPC Throttling", "UNAVAILABLE with RetryInfo"),
        delay=(OTLP, "OTLP/gRPC Throttling", "long enough to recover, too short to drop data"),
        no_retry=(OTLP, "Partial Success", "a partial success must not be sent again"),
    ),
    **_rules(
        "keys",
        unauthenticated=("RFC 9110", "15.5.2", "401 with WWW-Authenticate; UNAUTHENTICATED"),
        forbidden=("RFC 9110", "15.5.4", "known, but not allowed: 403; PERMISSION_DENIED"),
        credentials=("RFC 6750", "2.1", "Authorization: Bearer; the scheme has no case"),
    ),
    **_rules(
        "protobuf",
        unknown_fields=(OTLP, "Future Versions and Interoperability", "new fields are ignored"),
        open_enums=("proto3 guide", "Enumerations", "unknown values of an enum are kept"),
        last_wins=(PROTOBUF, "Last One Wins", "a single field given twice: the last value"),
        any_order=(PROTOBUF, "Field Order", "fields come in any order"),
        merge=(PROTOBUF, "Last One Wins", "embedded messages are merged, lists joined"),
        malformed=(PROTOBUF, "Structure", "bytes that are no message are refused whole"),
        utf8=("proto3 guide", "Scalar Value Types", "a string is UTF-8, or the message is bad"),
        depth=("protobuf", "recursion limit", "parsers stop at a depth; ours at 100 messages"),
    ),
    **_rules(
        "JSON",
        hex_ids=(OTLP, "JSON Protobuf Encoding", "traceId and spanId are hex, in any case"),
        integer_enums=(OTLP, "JSON Protobuf Encoding", "enums are integers"),
        enum_names=("ours", "JSON Protobuf Encoding", "names, that no sender may use, are read"),
        unknown_names=(OTLP, "JSON Protobuf Encoding", "unknown names must be ignored"),
        camel_case=(OTLP, "JSON Protobuf Encoding", "lowerCamelCase only"),
        int64=(JSON, "int64, fixed64", "text or number; exponents are numbers; range is checked"),
        int32=(JSON, "int32, uint32", "number or text, within its range, whole"),
        doubles=(JSON, "float, double", 'numbers, texts, "NaN", "Infinity", "-Infinity"'),
        booleans=(JSON, "bool", "true and false, nothing else"),
        strings=(JSON, "string", "UTF-8 text, nothing else"),
        base64=(JSON, "bytes", "base64, standard or URL-safe, padded or not"),
        nulls=(JSON, "Null values", "null is the same as absent"),
        one_of=(JSON, "OneofFieldDuplicate", "two members of a oneof are an error"),
        json_shape=(JSON, "message", "objects are objects and lists are lists"),
        json_text=("RFC 8259", "2", "one value, with white space around it, and nothing else"),
        json_utf8=("RFC 8259", "8.1", "UTF-8; a mark at the beginning may be ignored"),
        surrogates=("RFC 8259", "8.2", "half of a pair is unpredictable; ours: U+FFFD"),
        repeated_names=("RFC 8259", "4", "a name given twice is unpredictable; ours: the last"),
        json_depth=("RFC 8259", "9", "an implementation may limit the depth"),
        lenient_numbers=("ours", "RFC 8259, 6", "bare NaN and Infinity are read"),
    ),
    **_rules(
        "spans",
        trace_id=(TRACE_PROTO, "Span.trace_id", "16 bytes and not all zero, or it is invalid"),
        span_id=(TRACE_PROTO, "Span.span_id", "8 bytes and not all zero, or it is invalid"),
        parent=(TRACE_PROTO, "Span.parent_span_id", "8 bytes; empty in a root"),
        times=(TRACE_PROTO, "Span.start_time_unix_nano", "nanoseconds; end >= start expected"),
        no_start=("ours", "Span.start_time_unix_nano", "without a time, or beyond 2105: rejected"),
        name=(TRACE_PROTO, "Span.name", "empty means unknown"),
        kind=(TRACE_PROTO, "Span.SpanKind", "0 to 5; unspecified may be read as internal"),
        status=(TRACE_PROTO, "Status", "absent means unset"),
        trace_state=(TRACE_PROTO, "Span.trace_state", "W3C text, taken as it is"),
        flags=(TRACE_PROTO, "Span.flags", "24 upper bits may be anything"),
        attributes=(COMMON_PROTO, "AnyValue", "any type, also empty, lists and maps"),
        unique_keys=(TRACE_PROTO, "Span.attributes", "keys are unique; ours: all are kept"),
        dropped=(TRACE_PROTO, "dropped_*_count", "unsigned 32 bits, zero if nothing"),
        events=(TRACE_PROTO, "Span.Event", "time, name and attributes"),
        links=(TRACE_PROTO, "Span.Link", "ids, state, attributes, flags"),
        resource=(TRACE_PROTO, "ResourceSpans", "a resource may be absent; schema_url is its own"),
        scope=(TRACE_PROTO, "ScopeSpans", "a scope may be absent; schema_url is its own"),
        duplicates=(OTLP, "Duplicate Data", "what is sent again is taken again"),
    ),
}
