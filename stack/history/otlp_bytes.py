"""OTLP trace requests written as bytes, for the millions of attributes of a month.

Building protobuf objects costs about 3 µs an attribute, which over thirty days is minutes. Most
attributes repeat, so each is encoded once and joined. Field numbers are those of
opentelemetry-proto; a test reads the result back with the generated classes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache

_pack_double = struct.Struct("<d").pack
_pack_fixed64 = struct.Struct("<Q").pack

LOCAL_PARENT = b"\x85\x01" + (0x100).to_bytes(4, "little")
REMOTE_PARENT = b"\x85\x01" + (0x300).to_bytes(4, "little")
STATUS_UNSET = b"\x7a\x00"


def varint(value: int) -> bytes:
    """Encode a non-negative integer, seven bits a byte."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes([value]) for value in range(0x80)]


def field(tag: int, body: bytes) -> bytes:
    """Encode a length-delimited field with a number below 16."""
    return _SMALL[tag << 3 | 2] + varint(len(body)) + body


@lru_cache(maxsize=65_536)
def text(key: str, value: str) -> bytes:
    """Encode a string attribute; remembered, so for values that repeat."""
    return _attribute(key, field(1, value.encode()))


@lru_cache(maxsize=65_536)
def integer(key: str, value: int) -> bytes:
    return _attribute(key, b"\x18" + varint(value))


@lru_cache(maxsize=64)
def boolean(key: str, value: bool) -> bytes:
    return _attribute(key, b"\x10" + _SMALL[value])


@lru_cache(maxsize=64)
def texts(key: str, values: tuple[str, ...]) -> bytes:
    """Encode an attribute that is an array of strings."""
    array = b"".join(field(1, field(1, value.encode())) for value in values)
    return _attribute(key, field(5, array))


def double(key: str, value: float) -> bytes:
    return _double_head(key) + _pack_double(value)


def once(key: str, value: bytes) -> bytes:
    """Encode an ASCII string attribute that will not come again, such as an id."""
    return _text_head(key, len(value)) + value


def span(
    trace_id: bytes,
    span_id: bytes,
    parent_id: bytes,
    head: bytes,
    start_ns: int,
    end_ns: int,
    attributes: bytes,
    tail: bytes = STATUS_UNSET + LOCAL_PARENT,
) -> bytes:
    """Encode a span as a field of ScopeSpans. `head` is from `span_head`, `tail` status + flags."""
    parent = b"\x22\x08" + parent_id if parent_id else b""
    body = b"".join(
        (
            b"\x0a\x10",
            trace_id,
            b"\x12\x08",
            span_id,
            parent,
            head,
            b"\x39",
            _pack_fixed64(start_ns),
            b"\x41",
            _pack_fixed64(end_ns),
            attributes,
            tail,
        )
    )
    return b"\x12" + varint(len(body)) + body


@lru_cache(maxsize=256)
def span_head(name: str, kind: int) -> bytes:
    return field(5, name.encode()) + b"\x30" + varint(kind)


@lru_cache(maxsize=256)
def status_error(message: str) -> bytes:
    return field(15, field(2, message.encode()) + b"\x18\x02")


def resource(attributes: Mapping[str, str]) -> bytes:
    """Encode a Resource as a field of ResourceSpans."""
    pairs = (field(1, _key_value(k, field(1, v.encode()))) for k, v in attributes.items())
    return field(1, b"".join(pairs))


def scope_spans(scope: str, spans: Iterable[bytes]) -> bytes:
    """Encode encoded spans under one scope, as a field of ResourceSpans."""
    return field(2, field(1, field(1, scope.encode())) + b"".join(spans))


def request(resource_spans: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Join (resource, scope spans) pairs to an ExportTraceServiceRequest."""
    return b"".join(field(1, head + body) for head, body in resource_spans)


def _key_value(key: str, value: bytes) -> bytes:
    return field(1, key.encode()) + field(2, value)


def _attribute(key: str, value: bytes) -> bytes:
    return field(9, _key_value(key, value))


@lru_cache(maxsize=64)
def _double_head(key: str) -> bytes:
    return _attribute(key, b"\x21" + bytes(8))[:-8]


@lru_cache(maxsize=256)
def _text_head(key: str, length: int) -> bytes:
    return _attribute(key, field(1, bytes(length)))[: -length or None]
