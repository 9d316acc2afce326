"""OTLP/JSON traces to protobuf bytes.

It is not protobuf's own JSON mapping: ids are hex (in any case), enums are integers, int64 comes as
text or as a number, names are lowerCamelCase only, unknown fields are ignored, doubles may be
"NaN", and an attribute may be a string, a number, bytes, a list, a map or empty.
OTLP 1.11, "JSON Protobuf Encoding".

Each message below is a table from JSON name to the writer of that protobuf field. Bytes are written
directly: building message objects for 20 attributes a span costs ten times as much.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from base.errors import BadInput

Writer = Callable[[Any], bytes]

_HALF = "tokenweir.half_a_pair"  # how text is encoded that holds half of a surrogate pair
_DEEPEST = 30  # protobuf parsers stop at 100 nested messages; a map in a map costs three
# What JSON does not have (NaN, Infinity) and some write all the same is read as its name.
_DECODER = json.JSONDecoder(parse_constant=str)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII).fullmatch
_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SPAN_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUS_CODES = ("UNSET", "OK", "ERROR")


def to_protobuf(data: bytes) -> bytes:
    """Turn an OTLP/JSON ExportTraceServiceRequest into the same message in protobuf.

    Raises BadInput. The result is not checked any further: ids may have any length.
    """
    try:
        # json.loads(bytes) would take UTF-16 and UTF-32 as well (RFC 8259, section 8.1).
        document = _DECODER.decode(data.decode().removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the body is not JSON: {error}") from error
    return document_to_protobuf(document)


def document_to_protobuf(document: Any) -> bytes:
    """Do the same for a JSON document that is parsed already."""
    try:
        return _REQUEST(document)
    except BadInput:
        raise
    except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
        raise BadInput(f"the body is JSON but not an ExportTraceServiceRequest: {error}") from error


def _message(fields: Mapping[str, Writer]) -> Writer:
    def write(item: Any) -> bytes:
        if not isinstance(item, dict):
            raise BadInput(f"{str(item)[:40]!r} stands where an object is expected")
        return b"".join(
            [
                fields[name](value)
                for name, value in item.items()
                if name in fields and value is not None
            ]
        )

    return write


def _one(tag: int, write: Writer) -> Writer:
    return lambda value: _delimited(tag, write(value))


def _many(tag: int, write: Writer) -> Writer:
    def write_all(values: Any) -> bytes:
        if not isinstance(values, list):
            raise BadInput(f"{str(values)[:40]!r} stands where a list is expected")
        return b"".join([_delimited(tag, write(value)) for value in values])

    return write_all


def _text(tag: int) -> Writer:
    return lambda value: _delimited(tag, value.encode("utf-8", _HALF))


def _id(tag: int) -> Writer:
    """Write an id. Text that is not hex becomes an empty id, so that only its span is refused."""

    def write(value: Any) -> bytes:
        try:
            return _delimited(tag, binascii.unhexlify(value))
        except ValueError:
            return b""

    return write


def _number(tag: int, least: int, most: int) -> Writer:
    def write(value: Any) -> bytes:
        number = value if type(value) is int else _integer(value)
        if not least <= number <= most:
            raise BadInput(f"{number} is not between {least} and {most}")
        return _TAGS[tag] + _varint(number)

    return write


def _count(tag: int) -> Writer:
    return _number(tag, 0, 2**32 - 1)


def _fixed(tag: bytes, layout: str) -> Writer:
    pack = struct.Struct(layout).pack
    return lambda value: tag + pack(_integer(value))


def _enum(tag: int, prefix: str, names: tuple[str, ...]) -> Writer:
    """Write an enum's number; older exporters send its name."""
    numbers = {prefix + name: number for number, name in enumerate(names)}
    number = _number(tag, -(2**31), 2**31 - 1)
    return lambda value: number(numbers.get(value, value) if isinstance(value, str) else value)


def _pair(pair: Any, depth: int = 0) -> bytes:
    """Write a KeyValue."""
    key, value = pair.get("key"), pair.get("value")
    head = _key("" if key is None else key)
    return head if value is None else head + _delimited(0x12, _any(value, depth))


def _any(value: Any, depth: int) -> bytes:
    """Write an AnyValue: an object with at most one known member."""
    if len(value) > 1:
        value = _only_one(value)
    for member, content in value.items():
        if content is None:
            continue
        write = _SCALARS.get(member)
        if write is not None:
            return write(content)
        if member in _NESTED:
            if depth == _DEEPEST:
                raise BadInput(f"an attribute is nested deeper than {_DEEPEST} levels")
            tag, write_item = _NESTED[member]
            items = content.get("values")
            if items is None:
                return _delimited(tag, b"")
            if not isinstance(items, list):
                raise BadInput(f"{str(items)[:40]!r} stands where a list is expected")
            inner = [_delimited(0x0A, write_item(item, depth + 1)) for item in items]
            return _delimited(tag, b"".join(inner))
    return b""


def _only_one(value: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is unknown or null; two that are left contradict each other."""
    known = {
        member: content
        for member, content in value.items()
        if content is not None and (member in _SCALARS or member in _NESTED)
    }
    if len(known) > 1:
        raise BadInput(f"an attribute's value has both {' and '.join(sorted(known))}")
    return known


def _any_or_empty(value: Any, depth: int) -> bytes:
    return b"" if value is None else _any(value, depth)


def _boolean(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise BadInput(f"boolValue {value!r} is neither true nor false")
    return b"\x10\x01" if value else b"\x10\x00"


def _double(value: Any) -> bytes:
    if isinstance(value, str) and value in _NO_NUMBERS:
        return b"\x21" + _DOUBLE(_NO_NUMBERS[value])
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER(value)):
        raise BadInput(f"{value!r} is not a number")
    number = float(value)
    if math.isinf(number):
        raise BadInput(f"{value!r} is larger than a double can be")
    return b"\x21" + _DOUBLE(number)


def _base64(value: str) -> bytes:
    try:
        text = value.translate(_URL_SAFE).rstrip("=")
        raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise BadInput(f"bytesValue is not base64: {error}") from error
    return _delimited(0x3A, raw)


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is str and value.isdigit() and value.isascii() and value[0] != "0":
        return int(value)  # nearly all
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER(value)):
        raise BadInput(f"{value!r} is not an integer")
    try:
        return int(value) if isinstance(value, str) else _whole(value)
    except ValueError:
        return _whole(float(value))  # "1e3" and "5.0" are integers in protobuf's JSON


def _whole(number: float) -> int:
    if not number.is_integer():
        raise BadInput(f"{number!r} is not an integer")
    return int(number)


def _delimited(tag: int, payload: bytes) -> bytes:
    size = len(payload)
    return _TAGS[tag] + (_SIZES[size] if size < 1024 else _base128(size)) + payload


def _varint(number: int) -> bytes:
    if 0 <= number < len(_SIZES):
        return _SIZES[number]
    return _base128(number & 2**64 - 1)


def _base128(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@lru_cache(4096)
def _key(key: str) -> bytes:
    return _delimited(0x0A, key.encode("utf-8", _HALF))


def _half_a_pair(error: UnicodeError) -> tuple[bytes, int]:
    """Write U+FFFD for half of a surrogate pair, which JavaScript leaves when it cuts a text."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return b"\xef\xbf\xbd" * (error.end - error.start), error.end


codecs.register_error(_HALF, _half_a_pair)

_TAGS = [bytes([tag]) for tag in range(128)]
_SIZES = [_base128(size) for size in range(1024)]
_URL_SAFE = str.maketrans("-_", "+/")
_DOUBLE = struct.Struct("<d").pack
_SCALARS: dict[str, Writer] = {
    "stringValue": _text(0x0A),
    "boolValue": _boolean,
    "intValue": _number(0x18, -(2**63), 2**63 - 1),
    "doubleValue": _double,
    "bytesValue": _base64,
}
_NESTED: dict[str, tuple[int, Callable[[Any, int], bytes]]] = {
    "arrayValue": (0x2A, _any_or_empty),
    "kvlistValue": (0x32, _pair),
}

_EVENT = _message(
    {
        "timeUnixNano": _fixed(b"\x09", "<Q"),
        "name": _text(0x12),
        "attributes": _many(0x1A, _pair),
        "droppedAttributesCount": _count(0x20),
    }
)
_LINK = _message(
    {
        "traceId": _id(0x0A),
        "spanId": _id(0x12),
        "traceState": _text(0x1A),
        "attributes": _many(0x22, _pair),
        "droppedAttributesCount": _count(0x28),
        "flags": _fixed(b"\x35", "<I"),
    }
)
_STATUS = _message({"message": _text(0x12), "code": _enum(0x18, "STATUS_CODE_", _STATUS_CODES)})
_SPAN = _message(
    {
        "traceId": _id(0x0A),
        "spanId": _id(0x12),
        "traceState": _text(0x1A),
        "parentSpanId": _id(0x22),
        "name": _text(0x2A),
        "kind": _enum(0x30, "SPAN_KIND_", _SPAN_KINDS),
        "startTimeUnixNano": _fixed(b"\x39", "<Q"),
        "endTimeUnixNano": _fixed(b"\x41", "<Q"),
        "attributes": _many(0x4A, _pair),
        "droppedAttributesCount": _count(0x50),
        "events": _many(0x5A, _EVENT),
        "droppedEventsCount": _count(0x60),
        "links": _many(0x6A, _LINK),
        "droppedLinksCount": _count(0x70),
        "status": _one(0x7A, _STATUS),
        "flags": _fixed(b"\x85\x01", "<I"),
    }
)
_SCOPE = _message(
    {
        "name": _text(0x0A),
        "version": _text(0x12),
        "attributes": _many(0x1A, _pair),
        "droppedAttributesCount": _count(0x20),
    }
)
_SCOPE_SPANS = _message(
    {"scope": _one(0x0A, _SCOPE), "spans": _many(0x12, _SPAN), "schemaUrl": _text(0x1A)}
)
_RESOURCE = _message({"attributes": _many(0x0A, _pair), "droppedAttributesCount": _count(0x10)})
_RESOURCE_SPANS = _message(
    {
        "resource": _one(0x0A, _RESOURCE),
        "scopeSpans": _many(0x12, _SCOPE_SPANS),
        "schemaUrl": _text(0x1A),
    }
)
_REQUEST = _message({"resourceSpans": _many(0x0A, _RESOURCE_SPANS)})
