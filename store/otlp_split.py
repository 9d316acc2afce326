"""Cut one large export request into smaller ones that mean the same.

The engine needs about thirty times a request's size in memory, and 64 MiB may arrive in one. Spans
are moved as they are; each piece repeats the resource and the scope they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_RESOURCE_SPANS, _SCOPE_SPANS, _SPANS = 1, 2, 2
_BYTES = 2  # the wire type of texts, bytes and messages


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: `raw` with its tag, `value` without tag and length."""

    number: int
    raw: memoryview
    value: memoryview


def pieces(body: bytes, limit: int) -> list[bytes]:
    """Cut `body` into requests of about `limit` bytes; one span larger than that stays whole.

    A body that is no export request comes back as it is: the engine refuses it with a reason.
    """
    if len(body) <= limit:
        return [body]
    try:
        return [bytes(piece) for piece in _cut(memoryview(body), limit)]
    except (IndexError, ValueError):
        return [body]


def _cut(body: memoryview, limit: int) -> Iterator[bytearray]:
    piece = bytearray()
    for resource in _fields(body):
        if resource.number != _RESOURCE_SPANS:
            continue
        parts = list(_fields(resource.value))
        head = b"".join(part.raw for part in parts if part.number != _SCOPE_SPANS)
        for scope in (part for part in parts if part.number == _SCOPE_SPANS):
            inner = list(_fields(scope.value))
            scope_head = b"".join(field.raw for field in inner if field.number != _SPANS)
            spans = bytearray()
            for span in (field for field in inner if field.number == _SPANS):
                if spans and len(piece) + len(spans) + len(span.raw) > limit:
                    yield piece + _wrapped(head, scope_head + spans)
                    piece, spans = bytearray(), bytearray()
                spans += span.raw
            piece += _wrapped(head, scope_head + spans)
    if piece:
        yield piece


def _wrapped(head: bytes, scope: bytes) -> bytes:
    return _field(_RESOURCE_SPANS, head + _field(_SCOPE_SPANS, scope))


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | _BYTES]) + varint(len(value)) + value


def _fields(message: memoryview) -> Iterator[Field]:
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        value_at = at
        match tag & 7:
            case 0:
                _, at = _read_varint(message, at)
            case 1:
                at += 8
            case 2:
                size, value_at = _read_varint(message, at)
                at = value_at + size
            case 5:
                at += 4
            case _:
                raise ValueError("groups are not part of OTLP")
        if at > len(message):
            raise ValueError("a field ends after its message")
        yield Field(tag >> 3, message[start:at], message[value_at:at])


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a varint is longer than ten bytes")


def varint(number: int) -> bytes:
    """Write a number as protobuf does."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
