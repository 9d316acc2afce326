"""What spans may hold: each case is the same message over every transport."""

from __future__ import annotations

import math

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.collector.conformance.case import (
    SPAN_ID,
    START_NS,
    TRACE_ID,
    Case,
    Taken,
    many,
    mapped,
    one,
    request,
    span,
    text,
    valued,
)

MOST = 2**32 - 1
LAST_NS = 2**32 * 10**9 - 1


def _only_invalid(rule: str, name: str, says: str, /, **fields: object) -> Case:
    """A bad span beside a good one: the good one stays."""
    good = span(name="good")
    return Case(rule, name, request(good, span(**fields)), Taken(1, says), logged=request(good))


IDS = [
    Case("full_success", "a span as it should be", one()),
    _only_invalid("trace_id", "no trace id", "trace_id", trace_id=b""),
    _only_invalid("trace_id", "a trace id of 8 bytes", "trace_id is 8 bytes", trace_id=SPAN_ID),
    _only_invalid("trace_id", "a trace id of 15 bytes", "trace_id", trace_id=TRACE_ID[1:]),
    _only_invalid("trace_id", "a trace id of 17 bytes", "trace_id", trace_id=TRACE_ID + b"1"),
    _only_invalid("trace_id", "a trace id of zeros", "all zero", trace_id=bytes(16)),
    _only_invalid("span_id", "no span id", "span_id", span_id=b""),
    _only_invalid("span_id", "a span id of 7 bytes", "span_id is 7 bytes", span_id=SPAN_ID[1:]),
    _only_invalid("span_id", "a span id of 9 bytes", "span_id", span_id=SPAN_ID + b"1"),
    _only_invalid("span_id", "a span id of zeros", "all zero", span_id=bytes(8)),
    Case("parent", "a root has none", one(parent_span_id=b"")),
    Case("parent", "a child has one", one(parent_span_id=b"parent!!")),
    Case("parent", "zeros are kept", one(parent_span_id=bytes(8))),
    _only_invalid("parent", "a parent of 4 bytes", "parent_span_id", parent_span_id=b"four"),
    Case("trace_id", "one byte that is not zero is enough", one(trace_id=bytes(15) + b"\x01")),
    Case(
        "all_or_part",
        "no span is valid",
        request(span(span_id=b""), span(trace_id=b"")),
        Taken(2, "span_id"),
    ),
    Case(
        "partial_success",
        "invalid spans of several resources are added up",
        ExportTraceServiceRequest(
            resource_spans=[
                {"scope_spans": [{"spans": [span(span_id=b""), span(name="kept")]}]},
                {"scope_spans": [{"spans": [span(span_id=b"")]}, {"spans": [span(trace_id=b"")]}]},
            ]
        ),
        Taken(3, "span_id"),
        logged=ExportTraceServiceRequest(
            resource_spans=[
                {"scope_spans": [{"spans": [span(name="kept")]}]},
                {"scope_spans": [{"spans": []}, {"spans": []}]},
            ]
        ),
    ),
    _only_invalid(
        "partial_message", "the message names the span", "'culprit'", name="culprit", span_id=b""
    ),
    _only_invalid("partial_message", "a name of 64 KiB is cut", "…", name="x" * 65536, span_id=b""),
]

TIMES = [
    Case("times", "end is start", one(end_time_unix_nano=START_NS)),
    Case("times", "end before start is kept", one(end_time_unix_nano=START_NS - 1)),
    Case("times", "no end is kept", one(end_time_unix_nano=0)),
    Case("times", "the first nanosecond of 1970", one(start_time_unix_nano=1)),
    Case("times", "the last that the store knows", one(end_time_unix_nano=LAST_NS)),
    _only_invalid("no_start", "no start", "start_time_unix_nano", start_time_unix_nano=0),
    _only_invalid("no_start", "a start in 2106", "2105", start_time_unix_nano=LAST_NS + 1),
    _only_invalid("no_start", "all 64 bits of a start", "2105", start_time_unix_nano=2**64 - 1),
    _only_invalid("no_start", "all 64 bits of an end", "end_time", end_time_unix_nano=2**64 - 1),
]

FIELDS = [
    Case("name", "no name", one(name="")),
    Case("name", "any script", one(name="чат 聊天 💬 \u200b")),
    Case("name", "control characters and NUL", one(name="a\x00b\tc\n")),
    Case("name", "64 KiB of a name", one(name="n" * 65536)),
    *(Case("kind", f"kind {Span.SpanKind.Name(kind)}", one(kind=kind)) for kind in range(6)),
    Case("open_enums", "a kind of the future", one(kind=99)),
    Case("open_enums", "a kind of more than a byte", one(kind=2**31 - 1)),
    Case("open_enums", "a negative kind", one(kind=-1)),
    Case("status", "no status", one()),
    Case("status", "an empty status", one(status={})),
    Case("status", "OK", one(status={"code": 1})),
    Case("status", "an error and its message", one(status={"code": 2, "message": "no GPU"})),
    Case("open_enums", "a status of the future", one(status={"code": 7})),
    Case("trace_state", "a trace state", one(trace_state="ot=th:8;rv:abcdef,v=1")),
    Case("trace_state", "no W3C trace state", one(trace_state="?!")),
    Case("flags", "sampled", one(flags=1)),
    Case("flags", "has a remote parent", one(flags=0x301)),
    Case("flags", "all bits", one(flags=MOST)),
    Case("dropped", "attributes", one(dropped_attributes_count=MOST)),
    Case("dropped", "events", one(dropped_events_count=MOST)),
    Case("dropped", "links", one(dropped_links_count=MOST)),
]

VALUES: dict[str, AnyValue | None] = {
    "text": text("x"),
    "an empty text": text(""),
    "true": AnyValue(bool_value=True),
    "false": AnyValue(bool_value=False),
    "zero": AnyValue(int_value=0),
    "the least integer": AnyValue(int_value=-(2**63)),
    "the greatest integer": AnyValue(int_value=2**63 - 1),
    "a double": AnyValue(double_value=0.1),
    "the smallest double": AnyValue(double_value=5e-324),
    "the largest double": AnyValue(double_value=1.7976931348623157e308),
    "minus zero": AnyValue(double_value=-0.0),
    "not a number": AnyValue(double_value=math.nan),
    "infinity": AnyValue(double_value=math.inf),
    "minus infinity": AnyValue(double_value=-math.inf),
    "bytes": AnyValue(bytes_value=bytes(range(256))),
    "no bytes": AnyValue(bytes_value=b""),
    "a list of one type": many(text("a"), text("b")),
    "a mixed list with an empty value": many(text("a"), AnyValue(int_value=1), AnyValue()),
    "lists in a list": many(many(many(text("deep")))),
    "an empty list": many(),
    "a map": mapped(a=text("b"), c=many(AnyValue(double_value=1.5))),
    "an empty map": mapped(),
    "a map in a map": mapped(a=mapped(b=mapped(c=text("d")))),
    "an empty value": AnyValue(),
    "no value": None,
}

ATTRIBUTES = [
    *(Case("attributes", name, valued(value)) for name, value in VALUES.items()),
    Case("attributes", "an empty key", valued(text("x"), key="")),
    Case("attributes", "a key of 4 KiB", valued(text("x"), key="k" * 4096)),
    Case("attributes", "a value of 1 MB", valued(text("v" * 1_000_000))),
    Case(
        "attributes",
        "500 of them",
        one(attributes=[KeyValue(key=f"k{n}", value=AnyValue(int_value=n)) for n in range(500)]),
    ),
    Case(
        "unique_keys",
        "a key twice",
        one(attributes=[KeyValue(key="k", value=text(each)) for each in ("a", "b")]),
    ),
    Case(
        "unique_keys",
        "a key of a map twice",
        valued(AnyValue(kvlist_value={"values": [KeyValue(key="k", value=text("a"))] * 2})),
    ),
]

EVENTS = [
    Case(
        "events",
        "one with everything",
        one(
            events=[
                {
                    "time_unix_nano": START_NS + 1,
                    "name": "first token",
                    "attributes": [KeyValue(key="n", value=AnyValue(int_value=1))],
                    "dropped_attributes_count": MOST,
                }
            ]
        ),
    ),
    Case("events", "one with nothing", one(events=[{}])),
    Case("events", "one before its span", one(events=[{"time_unix_nano": 1, "name": "early"}])),
    Case("events", "all 64 bits of a time", one(events=[{"time_unix_nano": 2**64 - 1}])),
    Case("events", "1000 of them", one(events=[{"name": f"e{n}"} for n in range(1000)])),
    Case(
        "links",
        "one with everything",
        one(
            links=[
                {
                    "trace_id": TRACE_ID,
                    "span_id": SPAN_ID,
                    "trace_state": "a=b",
                    "attributes": [KeyValue(key="why", value=text("batched"))],
                    "dropped_attributes_count": MOST,
                    "flags": MOST,
                }
            ]
        ),
    ),
    Case("links", "one with nothing", one(links=[{}])),
    Case("links", "one whose ids are too short", one(links=[{"trace_id": b"ab", "span_id": b"c"}])),
    Case("links", "many", one(links=[{"trace_id": TRACE_ID, "span_id": SPAN_ID}] * 100)),
]

SCHEMA = "https://opentelemetry.io/schemas/1.40.0"
ENVELOPES = [
    Case("empty_request", "nothing at all", ExportTraceServiceRequest(), logged=None),
    Case(
        "resource",
        "with attributes and a schema",
        request(
            span(),
            resource={
                "attributes": [KeyValue(key="service.name", value=text("vllm"))],
                "dropped_attributes_count": MOST,
            },
            schema_url=SCHEMA,
        ),
    ),
    Case("resource", "an empty one", request(span(), resource={})),
    Case(
        "resource",
        "several",
        ExportTraceServiceRequest(
            resource_spans=[{"scope_spans": [{"spans": [span(name=str(n))]}]} for n in range(20)]
        ),
    ),
    Case(
        "scope",
        "with attributes and a schema",
        ExportTraceServiceRequest(
            resource_spans=[
                {
                    "scope_spans": [
                        {
                            "scope": {
                                "name": "vllm.llm_engine",
                                "version": "0.29",
                                "attributes": [KeyValue(key="a", value=text("b"))],
                                "dropped_attributes_count": MOST,
                            },
                            "spans": [span()],
                            "schema_url": SCHEMA,
                        }
                    ]
                }
            ]
        ),
    ),
    Case(
        "scope",
        "several",
        ExportTraceServiceRequest(
            resource_spans=[
                {"scope_spans": [{"scope": {"name": str(n)}, "spans": [span()]} for n in range(20)]}
            ]
        ),
    ),
    Case(
        "scope",
        "an empty one",
        ExportTraceServiceRequest(
            resource_spans=[{"scope_spans": [{"scope": {}, "spans": [span()]}]}]
        ),
    ),
    Case(
        "empty_envelope",
        "one without spans beside one with",
        ExportTraceServiceRequest(
            resource_spans=[
                {"resource": {}},
                {"scope_spans": [{"scope": {"name": "idle"}}, {"spans": [span()]}]},
            ]
        ),
    ),
    Case("duplicates", "the same span twice in a request", request(span(), span())),
    Case("duplicates", "a request that was sent before", one()),
    Case("full_success", "1000 spans", request(*(span(name=str(n)) for n in range(1000)))),
]
NO_SPANS = [
    Case("empty_envelope", name, body, on_disk)
    for name, body, on_disk in (
        ("a resource without scopes", ExportTraceServiceRequest(resource_spans=[{}]), Taken()),
        ("a scope without spans", request(), Taken()),
    )
]

CASES = [*IDS, *TIMES, *FIELDS, *ATTRIBUTES, *EVENTS, *ENVELOPES, *NO_SPANS]
