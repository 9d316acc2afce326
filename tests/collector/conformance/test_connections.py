"""HTTP/1.1 as bytes on a connection, and many calls on a gRPC channel."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx
import pytest

from tests.collector.conformance.case import EXPORT, one
from tests.collector.conformance.client import Client, Disk

BODY = one().SerializeToString()
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


def _head(
    *fields: str, method: str = "POST", path: str = "/v1/traces", version: str = "1.1"
) -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: x", *fields, "", ""]
    return "\r\n".join(lines).encode()


def _post(*fields: str, body: bytes = BODY, kind: str = "application/x-protobuf") -> bytes:
    return _head(f"Content-Type: {kind}", f"Content-Length: {len(body)}", *fields) + body


def _chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (*chunks, b""))


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is written on a new connection, in steps, and the statuses that come back after each."""

    rule: str
    name: str
    steps: tuple[tuple[bytes, tuple[int, ...]], ...]
    taken: int
    closed: bool = False


TYPE = "Content-Type: application/x-protobuf"
CHUNKED = _head(TYPE, "Transfer-Encoding: chunked")
WAITING = _head(TYPE, f"Content-Length: {len(BODY)}", "Expect: 100-continue")
EXCHANGES = [
    Exchange("keep_alive", "three requests in turn", ((_post(), (200,)),) * 3, 3),
    Exchange("keep_alive", "after bad data", ((_post(body=b"\xff"), (400,)), (_post(), (200,))), 1),
    Exchange(
        "keep_alive",
        "after a body that nobody read",
        ((_post(kind="text/plain"), (415,)), (_post(), (200,))),
        1,
    ),
    Exchange(
        "keep_alive",
        "after another path",
        ((_post().replace(b"traces", b"metrics"), (404,)), (_post(), (200,))),
        1,
    ),
    Exchange(
        "keep_alive", "until the client closes", ((_post("Connection: close"), (200,)),), 1, True
    ),
    Exchange("http_semantics", "HTTP/1.0", ((_post().replace(b"1.1", b"1.0"), (200,)),), 1, True),
    Exchange("pipelining", "five at once", ((_post() * 5, (200,) * 5),), 5),
    Exchange(
        "pipelining",
        "good, bad, good",
        ((_post() + _post(body=b"\xff") + _post(), (200, 400, 200)),),
        2,
    ),
    Exchange(
        "pipelining",
        "a refusal of what was not read, and a good one",
        ((_post(kind="text/plain") + _post(), (415, 200)),),
        1,
    ),
    Exchange("chunked", "in one piece", ((CHUNKED + _chunked(BODY), (200,)),), 1),
    Exchange(
        "chunked",
        "byte by byte",
        ((CHUNKED + _chunked(*(BODY[n : n + 1] for n in range(len(BODY)))), (200,)),),
        1,
    ),
    Exchange(
        "chunked",
        "with an extension and a trailer",
        ((CHUNKED + b"%x;a=b\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n" % (len(BODY), BODY), (200,)),),
        1,
    ),
    Exchange("chunked", "nothing", ((CHUNKED + _chunked(), (200,)),), 0),
    Exchange("chunked", "a size that is no number", ((CHUNKED + b"zz\r\n", (400,)),), 0, True),
    Exchange("expect", "wait, send, done", ((WAITING, (100,)), (BODY, (200,))), 1),
    Exchange(
        "expect",
        "the final answer at once",
        ((WAITING.replace(b"x-protobuf", b"zip"), (415,)),),
        0,
    ),
    Exchange("framing", "two lengths", ((_post("Content-Length: 5"), (400,)),), 0, True),
    Exchange(
        "framing", "a negative length", ((_head(TYPE, "Content-Length: -1"), (400,)),), 0, True
    ),
    Exchange(
        "framing",
        "a length and chunks",
        (
            (
                _head(TYPE, "Content-Length: 5", "Transfer-Encoding: chunked") + _chunked(BODY),
                (400,),
            ),
        ),
        0,
        True,
    ),
    Exchange("framing", "no HTTP", ((b"\x16\x03\x01\x02\x00\x01\r\n\r\n", (400,)),), 0, True),
    Exchange(
        "body_limit",
        "a length of a terabyte, before a byte of it",
        ((_head(TYPE, f"Content-Length: {1 << 40}"), (413,)),),
        0,
    ),
    Exchange("allow", "HEAD", ((_head(method="HEAD"), (405,)),), 0),
    Exchange("cors", "OPTIONS", ((_head("Origin: http://x", method="OPTIONS"), (405,)),), 0),
]


CHECKED = {exchange.rule for exchange in EXCHANGES} | {"concurrent", "deadline", "metadata"}


@pytest.fixture(scope="module")
def disk(receiver: Any) -> Disk:
    return Disk(receiver.data)


def _read(connection: socket.socket, statuses: tuple[int, ...]) -> bytes:
    """Read until as many answers are there as were expected."""
    text = b""
    while len(_STATUS_LINE.findall(text)) < len(statuses) or b"\r\n\r\n" not in text:
        piece = connection.recv(65536)
        if not piece:
            break
        text += piece
    return text


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: f"{each.rule}: {each.name}")
def test_a_connection_is_used_as_http_has_it(receiver: Any, disk: Disk, exchange: Exchange) -> None:
    disk.news()
    address = urlsplit(receiver.http)

    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        for written, statuses in exchange.steps:
            connection.sendall(written)
            text = _read(connection, statuses)
            assert tuple(map(int, _STATUS_LINE.findall(text))) == statuses
            assert b"access-control" not in text.lower()
        if exchange.closed:
            assert connection.recv(65536) == b""

    assert len(disk.news()) == exchange.taken


@pytest.fixture(scope="module")
def client(receiver: Any) -> Iterator[Client]:
    made = Client(receiver.http, receiver.grpc)
    yield made
    made.close()


def test_concurrent_exports_on_one_channel_are_all_taken(client: Client, disk: Disk) -> None:
    disk.news()
    export = client.channel.unary_unary(EXPORT)

    calls = [export.future(BODY, timeout=20) for _ in range(400)]

    assert {call.result() for call in calls} == {b""}
    assert len(disk.news()) == 400


def test_a_call_ends_at_its_deadline_and_holds_nothing_afterwards(
    receiver: Any, client: Client
) -> None:
    large = bytes(1 << 20)

    with pytest.raises(grpc.RpcError) as caught:
        client.channel.unary_unary(EXPORT)(large, timeout=1e-6)

    error: Any = caught.value
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert client.channel.unary_unary(EXPORT)(BODY, timeout=20) == b""
    assert httpx.get(f"{receiver.http}/status").json()["memory_bytes"] == 0


def test_a_name_in_capitals_cannot_be_sent_as_metadata(client: Client) -> None:

    with pytest.raises(grpc.RpcError, match="Invalid metadata"):
        client.channel.unary_unary(EXPORT)(BODY, timeout=20, metadata=[("X-Api-Key", "twk_")])
