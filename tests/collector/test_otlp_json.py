from __future__ import annotations

import base64
import contextlib
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, Parse, ParseError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from base.errors import BadInput
from collector.otlp_json import to_protobuf

TRACE = "5b8efff798038103d269b633813fc60c"
SPAN = "eee19b7ec3c1b174"


def decode(document: Any) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(to_protobuf(json.dumps(document).encode()))


def span_of(**members: Any) -> Span:
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [members]}]}]}
    return decode(document).resource_spans[0].scope_spans[0].spans[0]


def value_of(value: Any) -> AnyValue:
    return span_of(attributes=[{"key": "k", "value": value}]).attributes[0].value


@pytest.mark.parametrize("text", [TRACE, TRACE.upper(), TRACE[:8].upper() + TRACE[8:]])
def test_ids_are_hex_in_any_case(text: str) -> None:
    assert span_of(traceId=text).trace_id == bytes.fromhex(TRACE)


def test_an_id_that_is_not_hex_is_left_empty_so_that_only_its_span_is_refused() -> None:
    assert span_of(traceId="no hex", spanId=SPAN).trace_id == b""


@pytest.mark.parametrize("number", [1544712660000000000, "1544712660000000000", 1.54471266e18])
def test_64_bit_numbers_come_as_text_or_number(number: Any) -> None:
    assert span_of(startTimeUnixNano=number).start_time_unix_nano == 1544712660000000000


@pytest.mark.parametrize("kind", [2, "2", "SPAN_KIND_SERVER"])
def test_enums_are_numbers_and_old_names_are_understood(kind: Any) -> None:
    assert span_of(kind=kind).kind == Span.SPAN_KIND_SERVER


def test_unknown_members_and_snake_case_are_ignored() -> None:
    span = span_of(name="x", somethingNew={"a": [1]}, trace_id=TRACE)

    assert (span.name, span.trace_id) == ("x", b"")


def test_null_means_absent() -> None:
    span = span_of(name=None, attributes=None, status=None, startTimeUnixNano=None)

    assert span == Span()


@pytest.mark.parametrize(
    ("value", "member", "expected"),
    [
        ({"stringValue": ""}, "string_value", ""),
        ({"stringValue": "ü"}, "string_value", "ü"),
        ({"boolValue": False}, "bool_value", False),
        ({"intValue": "-9223372036854775808"}, "int_value", -(2**63)),
        ({"intValue": 5}, "int_value", 5),
        ({"intValue": "5.0"}, "int_value", 5),
        ({"doubleValue": 1}, "double_value", 1.0),
        ({"doubleValue": "Infinity"}, "double_value", math.inf),
        ({"doubleValue": "-Infinity"}, "double_value", -math.inf),
        ({"bytesValue": base64.b64encode(b"\xff\xfe").decode()}, "bytes_value", b"\xff\xfe"),
        ({"bytesValue": "__4"}, "bytes_value", b"\xff\xfe"),
    ],
)
def test_every_scalar_is_read(value: Any, member: str, expected: Any) -> None:
    read = value_of(value)

    assert read.WhichOneof("value") == member
    assert getattr(read, member) == expected


def test_nan_is_read() -> None:
    assert math.isnan(value_of({"doubleValue": "NaN"}).double_value)


def test_an_empty_value_stays_empty() -> None:
    assert value_of({}).WhichOneof("value") is None


def test_mixed_lists_and_maps_nest() -> None:
    read = value_of(
        {
            "arrayValue": {
                "values": [
                    {"intValue": "1"},
                    {},
                    {"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}]}},
                ]
            }
        }
    )

    assert read.array_value.values[0].int_value == 1
    assert read.array_value.values[1].WhichOneof("value") is None
    assert read.array_value.values[2].kvlist_value.values[0].value.bool_value


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "object"),
        (b'{"resourceSpans": {}}', "list"),
        (b'{"resourceSpans": [1]}', "object"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": ["x"]}]}]}', "object"),
    ],
)
def test_what_is_not_a_request_is_refused_with_a_reason(body: bytes, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        to_protobuf(body)


@pytest.mark.parametrize(
    "members",
    [
        {"name": 5},
        {"startTimeUnixNano": "soon"},
        {"startTimeUnixNano": -1},
        {"startTimeUnixNano": 1.5},
        {"kind": True},
        {"attributes": {"a": 1}},
        {"attributes": ["a"]},
        {"attributes": [{"key": "k", "value": "text"}]},
        {"attributes": [{"key": "k", "value": {"intValue": str(2**64)}}]},
        {"attributes": [{"key": "k", "value": {"boolValue": "true"}}]},
        {"attributes": [{"key": "k", "value": {"bytesValue": "*"}}]},
    ],
)
def test_a_member_of_the_wrong_type_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        span_of(**members)


def test_nesting_has_a_limit_below_that_of_protobuf_parsers() -> None:
    def nested(depth: int) -> Any:
        value: Any = {"stringValue": "deep"}
        for _ in range(depth):
            value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
        return value

    value_of(nested(30))
    with pytest.raises(BadInput, match="nested deeper"):
        value_of(nested(31))


def _hexify(node: Any) -> Any:
    """protobuf's own JSON has base64 where OTLP has hex."""
    ids = {"traceId", "spanId", "parentSpanId"}
    if isinstance(node, dict):
        return {k: base64.b64decode(v).hex() if k in ids else _hexify(v) for k, v in node.items()}
    return [_hexify(v) for v in node] if isinstance(node, list) else node


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_NANOS = st.integers(0, 2**64 - 1)
_U32 = st.integers(0, 2**32 - 1)
_VALUES = st.recursive(
    st.one_of(
        st.just(AnyValue()),
        _TEXT.map(lambda v: AnyValue(string_value=v)),
        st.booleans().map(lambda v: AnyValue(bool_value=v)),
        st.integers(-(2**63), 2**63 - 1).map(lambda v: AnyValue(int_value=v)),
        st.floats(allow_nan=False).map(lambda v: AnyValue(double_value=v)),
        st.binary(max_size=8).map(lambda v: AnyValue(bytes_value=v)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda v: AnyValue(array_value={"values": v})),
        st.lists(st.tuples(_TEXT, inner), max_size=3).map(
            lambda v: AnyValue(kvlist_value={"values": [{"key": k, "value": x} for k, x in v]})
        ),
    ),
    max_leaves=6,
)
_ATTRIBUTES = st.lists(st.builds(lambda k, v: {"key": k, "value": v}, _TEXT, _VALUES), max_size=3)
_SPANS = st.builds(
    Span,
    trace_id=st.binary(max_size=20),
    span_id=st.binary(max_size=10),
    parent_span_id=st.binary(max_size=8),
    trace_state=_TEXT,
    flags=_U32,
    name=_TEXT,
    kind=st.integers(0, 5),
    start_time_unix_nano=_NANOS,
    end_time_unix_nano=_NANOS,
    attributes=_ATTRIBUTES,
    dropped_attributes_count=_U32,
    events=st.lists(
        st.builds(Span.Event, time_unix_nano=_NANOS, name=_TEXT, attributes=_ATTRIBUTES),
        max_size=2,
    ),
    links=st.lists(
        st.builds(Span.Link, trace_id=st.binary(max_size=16), flags=_U32, attributes=_ATTRIBUTES),
        max_size=2,
    ),
    status=st.builds(lambda c, m: {"code": c, "message": m}, st.integers(0, 2), _TEXT),
)


@settings(max_examples=80, deadline=None)
@given(spans=st.lists(_SPANS, max_size=3), attributes=_ATTRIBUTES, name=_TEXT)
def test_json_and_protobuf_say_the_same(
    spans: list[Span], attributes: list[Any], name: str
) -> None:
    request = ExportTraceServiceRequest(
        resource_spans=[
            {
                "resource": {"attributes": attributes},
                "schema_url": name,
                "scope_spans": [{"scope": {"name": name, "version": "1"}, "spans": spans}],
            }
        ]
    )

    read = decode(_hexify(MessageToDict(request, use_integers_for_enums=True)))

    assert read == request


_ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 5.0, 1.5, -0.0, 1e3, 1e20, 1e308, [], {}, [1], {"a": 1}),
    *(2**31, 2**32, 2**32 - 1, -(2**31), 2**63, 2**63 - 1, -(2**63), 2**64 - 1, 2**64),
    *("", "0", "-0", "01", "+1", " 1", "1 ", "1_0", "0x1", "5.0", "1.5", "1.", ".5", "1e3", "1e-3"),
    *("NaN", "Infinity", "-Infinity", "nan", "inf", "true", "x", "AQ==", "AQ", "-_8=", "9" * 30),
    *("1e400", "1e-400", "18446744073709551615", "-9223372036854775808"),
]
_SCALAR_MEMBERS = ("stringValue", "boolValue", "intValue", "doubleValue", "bytesValue")
_SPAN_MEMBERS = ("name", "traceState", "startTimeUnixNano", "flags", "droppedLinksCount")
# Python's float() and int() take these, and so does its parser; they are no JSON numbers.
_ONLY_PYTHON_S = {"01", "+1", " 1", "1 ", "1_0", "1.", ".5", "inf", "1e400"}


@pytest.mark.parametrize("member", [*_SPAN_MEMBERS, *_SCALAR_MEMBERS])
def test_scalars_are_read_as_protobuf_s_own_parser_reads_them(member: str) -> None:
    for odd in _ODD:
        if member == "doubleValue" and isinstance(odd, bool):
            continue  # in Python they are 1 and 0
        span: dict[str, Any] = {member: odd}
        if member in _SCALAR_MEMBERS:
            span = {"attributes": [{"key": "k", "value": span}]}
        document = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        allowed = {_or_none(_protobuf_s_own, document)}
        if isinstance(odd, str) and odd in _ONLY_PYTHON_S:
            allowed.add(None)

        assert _or_none(decode, document) in allowed, odd


def _protobuf_s_own(document: Any) -> ExportTraceServiceRequest:
    return Parse(json.dumps(document), ExportTraceServiceRequest())


def _or_none(read: Callable[[Any], ExportTraceServiceRequest], document: Any) -> bytes | None:
    try:
        return read(document).SerializeToString(deterministic=True)
    except (BadInput, ParseError):
        return None


def test_any_json_is_either_read_or_refused() -> None:
    names = st.sampled_from(
        ["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "name", "intValue"]
    )
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    documents = st.recursive(
        leaves,
        lambda inner: st.lists(inner) | st.dictionaries(names, inner),
        max_leaves=20,
    )

    @settings(max_examples=150, deadline=None)
    @given(documents)
    def either(document: Any) -> None:
        with contextlib.suppress(BadInput):
            to_protobuf(json.dumps(document).encode())

    either()
