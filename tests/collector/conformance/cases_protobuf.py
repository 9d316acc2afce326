"""Bytes of protobuf that no library would write, over HTTP and gRPC."""

from __future__ import annotations

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.conformance.case import (
    BAD,
    BINARY,
    SPAN_ID,
    TRACE_ID,
    Case,
    one,
    span,
)

SPAN = span().SerializeToString()


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def _field(number: int, payload: bytes, wire_type: int = 2) -> bytes:
    size = _varint(len(payload)) if wire_type == 2 else b""
    return _varint(number << 3 | wire_type) + size + payload


def _wrapped(span_bytes: bytes) -> bytes:
    """Put a span's bytes under a scope, a resource, and a request."""
    return _field(1, _field(2, _field(2, span_bytes)))


def _bad(rule: str, name: str, body: bytes) -> Case:
    return Case(rule, name, body, BAD, on=BINARY)


def _read(rule: str, name: str, body: bytes, logged: ExportTraceServiceRequest) -> Case:
    return Case(rule, name, body, logged=logged, on=BINARY)


def _nested(depth: int) -> bytes:
    value = _field(1, b"deep")
    for _ in range(depth):
        value = _field(5, _field(1, value))  # a list of one
    return _wrapped(SPAN + _field(9, _field(1, b"k") + _field(2, value)))


def _reordered() -> bytes:
    times = _field(8, (7).to_bytes(8, "little"), 1) + _field(7, (5).to_bytes(8, "little"), 1)
    return _wrapped(times + _field(5, b"chat") + _field(2, SPAN_ID) + _field(1, TRACE_ID))


REORDERED = one(start_time_unix_nano=5, end_time_unix_nano=7)

CASES = [
    Case("empty_request", "no bytes", b"", on=BINARY),
    _read("unknown_fields", "a text in the request", _wrapped(SPAN) + _field(99, b"new"), one()),
    _read(
        "unknown_fields", "a number in the request", _field(77, b"\x05", 0) + _wrapped(SPAN), one()
    ),
    _read("unknown_fields", "a text in a span", _wrapped(SPAN + _field(99, b"new")), one()),
    _read(
        "unknown_fields",
        "32 and 64 bits in a span",
        _wrapped(SPAN + _field(98, bytes(4), 5) + _field(99, bytes(8), 1)),
        one(),
    ),
    _read(
        "unknown_fields",
        "a group in a span",
        _wrapped(SPAN + _field(99, b"", 3) + _field(1, b"x") + _field(99, b"", 4)),
        one(),
    ),
    _read(
        "unknown_fields",
        "a field of the greatest number",
        _wrapped(SPAN + _field(2**29 - 1, b"x")),
        one(),
    ),
    _read(
        "unknown_fields",
        "a known number of another wire type",
        _wrapped(SPAN + _field(5, b"\x07", 0)),
        one(),
    ),
    _read(
        "unknown_fields",
        "the reserved field of a resource",
        _field(1, _field(1000, b"old") + _field(2, _field(2, SPAN))),
        one(),
    ),
    _read("last_wins", "a name twice", _wrapped(SPAN + _field(5, b"second")), one(name="second")),
    _read(
        "last_wins",
        "a oneof twice",
        _wrapped(
            SPAN
            + _field(9, _field(1, b"k") + _field(2, _field(1, b"text") + _field(3, b"\x05", 0)))
        ),
        one(attributes=[{"key": "k", "value": {"int_value": 5}}]),
    ),
    _read("any_order", "a span from its end", _reordered(), REORDERED),
    _read(
        "merge",
        "a status in two parts",
        _wrapped(SPAN + _field(15, _field(2, b"no GPU")) + _field(15, _field(3, b"\x02", 0))),
        one(status={"code": 2, "message": "no GPU"}),
    ),
    _read(
        "merge",
        "two requests one after the other",
        _wrapped(SPAN) + _wrapped(SPAN),
        ExportTraceServiceRequest(
            resource_spans=[{"scope_spans": [{"spans": [span()]}]} for _ in range(2)]
        ),
    ),
    _read(
        "open_enums",
        "a kind of ten bytes",
        _wrapped(SPAN + _field(6, b"\xff" * 9 + b"\x01", 0)),
        one(kind=-1),
    ),
    _bad("malformed", "another format", b"\xff\xff"),
    _bad("malformed", "JSON", b'{"resourceSpans":[]}'),
    _bad("malformed", "cut in a length", _wrapped(SPAN)[:-3]),
    _bad("malformed", "cut in a tag", _wrapped(SPAN) + b"\x8a"),
    _bad("malformed", "a field of number 0", _wrapped(SPAN) + b"\x00\x00"),
    _bad("malformed", "a wire type that does not exist", _wrapped(SPAN) + b"\x0f\x01"),
    _bad(
        "malformed", "a number of eleven bytes", _wrapped(SPAN + b"\x30" + b"\xff" * 10 + b"\x01")
    ),
    _bad("malformed", "a group that does not end", _wrapped(SPAN + _field(99, b"", 3))),
    _bad("malformed", "a length beyond the end", b"\x0a\xff\xff\xff\xff\x07" + SPAN),
    _bad("utf8", "a name", _wrapped(SPAN + _field(5, b"\xff\xfe"))),
    _bad("utf8", "a key", _wrapped(SPAN + _field(9, _field(1, b"\xc3")))),
    _bad("utf8", "a value", _wrapped(SPAN + _field(9, _field(2, _field(1, b"cut \xf0\x9f\x92"))))),
    _bad("utf8", "half of a pair", _wrapped(SPAN + _field(5, b"\xed\xa0\xbd"))),
    _read(
        "utf8",
        "bytes need not be",
        _wrapped(SPAN + _field(9, _field(1, b"k") + _field(2, _field(7, b"\xff")))),
        one(attributes=[{"key": "k", "value": {"bytes_value": b"\xff"}}]),
    ),
    Case(
        "depth",
        "lists 30 deep",
        _nested(30),
        on=BINARY,
        logged=ExportTraceServiceRequest.FromString(_nested(30)),
    ),
    _bad("depth", "lists 100 deep", _nested(100)),
]
