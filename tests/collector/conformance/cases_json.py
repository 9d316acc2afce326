"""OTLP/JSON as documents: what is read, what is ignored, and what is refused."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.collector.conformance.case import (
    JSON,
    SPAN_ID,
    START_NS,
    TRACE_ID,
    Case,
    Final,
    Taken,
    many,
    one,
    request,
    span,
    text,
    valued,
)

MEMBERS = {
    "traceId": TRACE_ID.hex(),
    "spanId": SPAN_ID.hex(),
    "name": "chat",
    "startTimeUnixNano": str(START_NS),
    "endTimeUnixNano": str(START_NS + 5),
}
BIG = 2**53 + 1  # no double holds it


def document(**members: Any) -> bytes:
    """Write a request of one span; a member that is ABSENT is left out."""
    return json.dumps(_wrapped({**MEMBERS, **members})).encode()


def _wrapped(span_members: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span_members]}]}]}


def _with(value: Any) -> bytes:
    """Write a request of one span with one attribute."""
    return document(attributes=[{"key": "k", "value": value}])


def _read(rule: str, name: str, body: bytes, logged: ExportTraceServiceRequest | None) -> Case:
    return Case(rule, name, body, logged=logged, on=JSON)


def _bad(rule: str, name: str, body: bytes, says: str = "") -> Case:
    return Case(rule, name, body, Final(400, 3, says), on=JSON)


def _value(rule: str, name: str, value: Any, read: AnyValue | None) -> Case:
    return _read(rule, name, _with(value), valued(read))


def _bad_value(rule: str, name: str, value: Any) -> Case:
    return _bad(rule, name, _with(value))


def _raw(rule: str, name: str, member: str, logged: ExportTraceServiceRequest | None) -> Case:
    """Put text into a span that no JSON library would write."""
    body = document(RAW=0).replace(b'"RAW": 0', member.encode())
    return _read(rule, name, body, logged) if logged else _bad(rule, name, body)


def _rejected(name: str, **members: Any) -> Case:
    return Case("hex_ids", name, document(**members), Taken(1, "_id"), on=JSON)


IDS = [
    _read("hex_ids", "lower case", document(traceId=TRACE_ID.hex().lower()), one()),
    _read("hex_ids", "upper case", document(traceId="AB" * 16), one(trace_id=b"\xab" * 16)),
    _read("hex_ids", "both cases", document(spanId="aBcD" * 4), one(span_id=b"\xab\xcd" * 4)),
    _read("hex_ids", "a parent", document(parentSpanId="FF" * 8), one(parent_span_id=b"\xff" * 8)),
    _read("hex_ids", "no parent is an empty text", document(parentSpanId=""), one()),
    _read(
        "hex_ids",
        "those of a link",
        document(links=[{"traceId": "AB" * 16, "spanId": "cd" * 8}]),
        one(links=[{"trace_id": b"\xab" * 16, "span_id": b"\xcd" * 8}]),
    ),
    _rejected("base64 is not hex", traceId=base64.b64encode(TRACE_ID).decode()),
    _rejected("an odd number of digits", traceId="a" * 31),
    _rejected("a letter beyond F", spanId="g" * 16),
    _rejected("space between digits", traceId=" ".join(["ab"] * 16)),
    _rejected("with a prefix", spanId="0x" + "ab" * 7),
    _rejected("digits of another script", spanId="١" * 16),
    _rejected("an empty text", traceId=""),
    _bad("json_shape", "an id that is a number", document(traceId=5)),
]

NUMBERS = [
    _value("int64", "text", {"intValue": str(BIG)}, AnyValue(int_value=BIG)),
    _value("int64", "a number", {"intValue": BIG}, AnyValue(int_value=BIG)),
    _value(
        "int64", "the least, as text", {"intValue": str(-(2**63))}, AnyValue(int_value=-(2**63))
    ),
    _value("int64", "the greatest", {"intValue": 2**63 - 1}, AnyValue(int_value=2**63 - 1)),
    _value("int64", "a whole double", {"intValue": 5.0}, AnyValue(int_value=5)),
    _value("int64", "an exponent", {"intValue": "1e3"}, AnyValue(int_value=1000)),
    _value("int64", "minus zero", {"intValue": "-0"}, AnyValue(int_value=0)),
    _bad_value("int64", "one too many", {"intValue": str(2**63)}),
    _bad_value("int64", "one too few", {"intValue": str(-(2**63) - 1)}),
    _bad_value("int64", "a fraction", {"intValue": 1.5}),
    _bad_value("int64", "a word", {"intValue": "five"}),
    _bad_value("int64", "an empty text", {"intValue": ""}),
    _bad_value("int64", "a truth", {"intValue": True}),
    _bad_value("int64", "digits with an underscore", {"intValue": "1_000"}),
    _bad_value("int64", "infinity", {"intValue": "Infinity"}),
    _bad_value("int64", "5000 digits", {"intValue": "9" * 5000}),
    _read("int64", "a time as a number", document(startTimeUnixNano=START_NS), one()),
    _read(
        "int64",
        "a time as JavaScript writes it",
        document(startTimeUnixNano=1.79606125417e18),
        one(start_time_unix_nano=int(1.79606125417e18)),
    ),
    _bad("int64", "a negative time", document(startTimeUnixNano=-1)),
    _bad("int64", "a time of 65 bits", document(startTimeUnixNano=str(2**64))),
    Case(
        "no_start",
        "a time of 64 bits",
        document(startTimeUnixNano=str(2**64 - 1)),
        Taken(1, "2105"),
        on=JSON,
    ),
    _read(
        "int32",
        "a count as text",
        document(droppedAttributesCount="7"),
        one(dropped_attributes_count=7),
    ),
    _read(
        "int32",
        "the greatest count",
        document(droppedLinksCount=2**32 - 1),
        one(dropped_links_count=2**32 - 1),
    ),
    _bad("int32", "a count of 33 bits", document(droppedEventsCount=2**32)),
    _bad("int32", "a negative count", document(droppedAttributesCount=-1)),
    _bad("int32", "flags of 33 bits", document(flags=2**32)),
    _bad("int32", "a fraction of a count", document(droppedAttributesCount=0.5)),
    _value("doubles", "a number", {"doubleValue": 0.25}, AnyValue(double_value=0.25)),
    _value("doubles", "an integer", {"doubleValue": 1}, AnyValue(double_value=1)),
    _value("doubles", "text", {"doubleValue": "-2.5e-3"}, AnyValue(double_value=-0.0025)),
    _value("doubles", "not a number", {"doubleValue": "NaN"}, AnyValue(double_value=math.nan)),
    _value("doubles", "infinity", {"doubleValue": "Infinity"}, AnyValue(double_value=math.inf)),
    _value(
        "doubles", "its negative", {"doubleValue": "-Infinity"}, AnyValue(double_value=-math.inf)
    ),
    _bad_value("doubles", "a truth", {"doubleValue": True}),
    _bad_value("doubles", "a word", {"doubleValue": "many"}),
    _bad_value("doubles", "an empty text", {"doubleValue": ""}),
    _bad_value("doubles", "digits with an underscore", {"doubleValue": "1_0.5"}),
    _value(
        "lenient_numbers", "a bare NaN", {"doubleValue": math.nan}, AnyValue(double_value=math.nan)
    ),
    _value(
        "lenient_numbers",
        "a bare Infinity",
        {"doubleValue": -math.inf},
        AnyValue(double_value=-math.inf),
    ),
    _raw(
        "doubles",
        "more than a double",
        '"attributes": [{"key": "k", "value": {"doubleValue": 1e999}}]',
        None,
    ),
    _bad_value("doubles", "more than a double, as text", {"doubleValue": "-1e400"}),
    _value("doubles", "less than a double", {"doubleValue": "1e-999"}, AnyValue(double_value=0.0)),
    *(
        _bad_value("doubles", f"{text!r}", {"doubleValue": text})
        for text in ("nan", "inf", "+1", " 1", "1 ", ".5", "1.", "0x1p3", "١")
    ),
    *(
        _bad_value("int64", f"{text!r}", {"intValue": text})
        for text in ("+1", "01", " 1", "1\n", "0x10", "1,000", "--1", "१")
    ),
    _bad("int64", "a bare NaN for a time", document(startTimeUnixNano=math.nan)),
    *(
        _bad("strings", f"a key that is {key!r}", document(attributes=[{"key": key}]))
        for key in (0, False, [], {}, 5)
    ),
    _read("nulls", "a key", document(attributes=[{"key": None}]), valued(None, key="")),
    _read("attributes", "no key", document(attributes=[{}]), valued(None, key="")),
    *(
        _bad_value("json_shape", f"{kind} whose values are {values!r}", {kind: {"values": values}})
        for kind in ("arrayValue", "kvlistValue")
        for values in (0, "", False, {})
    ),
    _bad_value("booleans", "text", {"boolValue": "true"}),
    _bad_value("booleans", "a number", {"boolValue": 1}),
]

ENUMS = [
    _read("integer_enums", "a kind", document(kind=3), one(kind=3)),
    _read("integer_enums", "a status", document(status={"code": 2}), one(status={"code": 2})),
    _read("open_enums", "a kind of four digits", document(kind=1000), one(kind=1000)),
    _read("enum_names", "a kind's name", document(kind="SPAN_KIND_CLIENT"), one(kind=3)),
    _read(
        "enum_names",
        "a status's name",
        document(status={"code": "STATUS_CODE_ERROR"}),
        one(status={"code": 2}),
    ),
    _read("enum_names", "a number as text", document(kind="2"), one(kind=2)),
    _bad("enum_names", "a name that does not exist", document(kind="SPAN_KIND_QUEEN")),
    _bad("integer_enums", "a truth", document(kind=True)),
    _bad("integer_enums", "more than 32 bits", document(kind=2**31)),
]

NAMES = [
    _read("unknown_names", "in a span", document(somethingNew={"a": [1, {"b": None}]}), one()),
    _read(
        "unknown_names",
        "in the request",
        json.dumps({"new": 1, **_wrapped(MEMBERS)}).encode(),
        one(),
    ),
    _read(
        "unknown_names",
        "in a resource",
        json.dumps(
            {
                "resourceSpans": [
                    {
                        "resource": {"entityRefs": [{"type": "host"}]},
                        "scopeSpans": [{"spans": [MEMBERS]}],
                    }
                ]
            }
        ).encode(),
        request(span(), resource={}),
    ),
    _value("unknown_names", "beside a value", {"new": 1, "stringValue": "x"}, text("x")),
    _value("unknown_names", "instead of a value", {"newValue": 1}, AnyValue()),
    _read("unknown_names", "deep", document(new=json.loads("[" * 200 + "]" * 200)), one()),
    _read(
        "camel_case", "snake_case is unknown", document(parent_span_id="ff" * 8, end_time=1), one()
    ),
    _read(
        "camel_case",
        "a value in snake_case is none",
        _with({"string_value": "x"}),
        valued(AnyValue()),
    ),
    _read("camel_case", "PascalCase is unknown", document(Kind=3, TraceState="x"), one()),
    _read(
        "camel_case",
        "the request's own member",
        json.dumps({"resource_spans": [{}]}).encode(),
        None,
    ),
    _raw("repeated_names", "the last is taken", '"name": "second"', one(name="second")),
]

VALUES = [
    _value("base64", "standard", {"bytesValue": "+/+/"}, AnyValue(bytes_value=b"\xfb\xff\xbf")),
    _value("base64", "URL-safe", {"bytesValue": "-_-_"}, AnyValue(bytes_value=b"\xfb\xff\xbf")),
    _value("base64", "padded", {"bytesValue": "/w=="}, AnyValue(bytes_value=b"\xff")),
    _value("base64", "not padded", {"bytesValue": "/w"}, AnyValue(bytes_value=b"\xff")),
    _value("base64", "none", {"bytesValue": ""}, AnyValue(bytes_value=b"")),
    _bad_value("base64", "another alphabet", {"bytesValue": "*!"}),
    _bad_value("base64", "one character", {"bytesValue": "a"}),
    _bad_value("base64", "a list of numbers", {"bytesValue": [1, 2]}),
    _value(
        "one_of", "a null beside it", {"stringValue": None, "intValue": "1"}, AnyValue(int_value=1)
    ),
    _bad_value("one_of", "two of them", {"stringValue": "x", "intValue": "1"}),
    _bad_value(
        "one_of",
        "two of them, nested",
        {"arrayValue": {"values": [{"boolValue": True, "kvlistValue": {}}]}},
    ),
    _value("attributes", "a list without values", {"arrayValue": {}}, many()),
    _value("attributes", "an empty object", {}, AnyValue()),
    _bad_value("strings", "a number", {"stringValue": 5}),
    _bad("strings", "a name that is a list", document(name=["chat"])),
    _bad_value("json_shape", "a value that is a text", "x"),
    _bad_value("json_shape", "values that are no list", {"arrayValue": {"values": 5}}),
]

NULLS = [
    _read(
        "nulls",
        "members",
        document(
            kind=None,
            attributes=None,
            events=None,
            links=None,
            status=None,
            flags=None,
            traceState=None,
            parentSpanId=None,
            droppedLinksCount=None,
        ),
        one(),
    ),
    _read("nulls", "a value", _with(None), valued(None)),
    _value("nulls", "a oneof", {"stringValue": None}, AnyValue()),
    _read("nulls", "the list of spans", b'{"resourceSpans": null}', None),
    _read(
        "nulls",
        "scope and resource",
        json.dumps(
            {
                "resourceSpans": [
                    {
                        "resource": None,
                        "schemaUrl": None,
                        "scopeSpans": [{"scope": None, "spans": [MEMBERS]}],
                    }
                ]
            }
        ).encode(),
        one(),
    ),
    Case("nulls", "an id", document(spanId=None), Taken(1, "span_id"), on=JSON),
    _bad("nulls", "an element of a list", document(attributes=[None])),
]

SHAPES = [
    _bad("json_shape", "a list", b"[]", "object"),
    _bad("json_shape", "null", b"null"),
    _bad("json_shape", "a text", b'"resourceSpans"'),
    _bad("json_shape", "a number", b"5"),
    _bad("json_shape", "spans that are an object", document(events={"name": "x"}), "list"),
    _bad("json_shape", "attributes as a map", document(attributes={"k": "v"}), "list"),
    _bad("json_shape", "a status that is a number", document(status=2)),
    _bad("json_shape", "a span that is a text", json.dumps(_wrapped("span")).encode(), "object"),
]

TEXT = [
    _read("empty_request", "an empty object", b"{}", None),
    _read("empty_request", "no resources", b'{"resourceSpans": []}', None),
    _bad("bad_data", "no body", b"", "not JSON"),
    _bad("json_text", "only white space", b" \n", "not JSON"),
    _bad("json_text", "cut", document()[:-1], "not JSON"),
    _bad("json_text", "something behind it", document() + b"x", "not JSON"),
    _bad("json_text", "two documents", document() + b"\n" + document(), "not JSON"),
    _bad("json_text", "a comma too many", document()[:-1] + b",}", "not JSON"),
    _bad("json_text", "single quotes", document().replace(b'"', b"'"), "not JSON"),
    _bad("json_text", "a comment", b"/* traces */" + document(), "not JSON"),
    _bad("json_text", "a control character in a text", b'{"a": "\x01"}', "not JSON"),
    _bad("json_text", "protobuf", one().SerializeToString(), "not JSON"),
    _read(
        "json_text",
        "white space around and within",
        b"\r\n\t " + json.dumps(_wrapped(MEMBERS), indent=4).encode() + b" \n\n",
        one(),
    ),
    _read("json_utf8", "a byte order mark", b"\xef\xbb\xbf" + document(), one()),
    _read(
        "json_utf8",
        "other scripts, not escaped",
        json.dumps(_wrapped({**MEMBERS, "name": "聊天 💬"}), ensure_ascii=False).encode(),
        one(name="聊天 💬"),
    ),
    _read("json_utf8", "other scripts, escaped", document(name="聊天 💬"), one(name="聊天 💬")),
    _bad("json_utf8", "UTF-16", document().decode().encode("utf-16"), "not JSON"),
    _bad("json_utf8", "UTF-32", document().decode().encode("utf-32-le"), "not JSON"),
    _bad("json_utf8", "Latin-1", document().replace(b"chat", b"caf\xe9"), "not JSON"),
    _bad("json_utf8", "an overlong form", document().replace(b"chat", b"\xc0\xaf"), "not JSON"),
    _bad(
        "json_utf8",
        "half of a pair, not escaped",
        document().replace(b"chat", b"\xed\xa0\xbd"),
        "not JSON",
    ),
    _raw("surrogates", "a whole pair", r'"name": "\ud83d\udcac"', one(name="💬")),
    _raw("surrogates", "the first half", r'"name": "cut \ud83d"', one(name="cut \ufffd")),
    _raw("surrogates", "the second half", r'"name": "\udcac cut"', one(name="\ufffd cut")),
    _raw(
        "surrogates",
        "in a key and a value",
        r'"attributes": [{"key": "\ud83d", "value": {"stringValue": "\ud83d\ud83d"}}]',
        valued(text("\ufffd\ufffd"), key="\ufffd"),
    ),
    _raw("strings", "NUL, escaped", r'"name": "a\u0000b"', one(name="a\x00b")),
    _bad("json_depth", "100,000 brackets", b"[" * 100_000, "not JSON"),
    _bad(
        "json_depth",
        "an attribute 40 deep",
        _with(json.loads('{"arrayValue": {"values": [' * 40 + "{}" + "]}}" * 40)),
        "deeper",
    ),
    Case(
        "body_limit",
        "the message of a refusal is cut",
        _with({"intValue": "x" * 100_000}),
        Final(400, 3),
        on=JSON,
    ),
]

CASES = [*IDS, *NUMBERS, *ENUMS, *NAMES, *VALUES, *NULLS, *SHAPES, *TEXT]
