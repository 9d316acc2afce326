"""The data path's HTTP client against a raw server that says exactly what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stack.wire.upstream import AnswerCut, NoAnswer, Upstream

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(handler: Handler) -> Any:
    connections = 0

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(counted, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    upstream = Upstream(connect_s=0.5)
    try:
        yield upstream, f"http://127.0.0.1:{port}", lambda: connections
    finally:
        upstream.close()
        listening.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
    return head + await reader.readexactly(length)


async def test_a_request_is_written_whole_and_a_chunked_answer_read_whole() -> None:
    asked: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\nX-Kind: a\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (b"one", b"two"):
            await asyncio.sleep(0)
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with server(handler) as (upstream, url, _):
        with await upstream.send("POST", f"{url}/a?b=1", {"x-y": "z"}, b"body") as answer:
            assert answer.status == 200
            assert answer.headers["x-kind"] == "a"
            assert await answer.read() == b"onetwo"

    assert asked[0].startswith(b"POST /a?b=1 HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nx-y: z\r\n" in asked[0]
    assert asked[0].endswith(b"content-length: 4\r\n\r\nbody")


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with server(handler) as (upstream, url, connections):
        for _ in range(3):
            with await upstream.send("GET", url, {}) as answer:
                assert await answer.read() == b"ok"
        assert connections() == 1


async def test_an_answer_not_read_to_its_end_closes_the_connection() -> None:
    closed = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        await reader.read()
        closed.set()

    async with server(handler) as (upstream, url, _):
        with await upstream.send("GET", url, {}):
            pass
        await asyncio.wait_for(closed.wait(), 5)


async def test_cancelling_closes_the_connection() -> None:
    closed, asked = asyncio.Event(), asyncio.Event()

    async def handler(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.set()
        await reader.read()
        closed.set()

    async with server(handler) as (upstream, url, _):
        task = asyncio.create_task(upstream.send("POST", url, {}, b"x"))
        await asyncio.wait_for(asked.wait(), 5)
        task.cancel()
        await asyncio.wait_for(closed.wait(), 5)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 2"])
async def test_a_close_before_the_head_is_no_answer_or_a_cut(said: bytes) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)

    async with server(handler) as (upstream, url, _):
        with pytest.raises(AnswerCut if said else NoAnswer):
            await upstream.send("POST", url, {}, b"x")


@pytest.mark.parametrize("framing", [b"content-length: 100", b"transfer-encoding: chunked"])
async def test_a_close_in_the_middle_of_a_body_is_a_cut(framing: bytes) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n3\r\nabc\r\n")

    async with server(handler) as (upstream, url, _):
        with await upstream.send("POST", url, {}, b"x") as answer:
            with pytest.raises(AnswerCut):
                await answer.read()


async def test_an_unframed_body_ends_with_its_connection() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall")

    async with server(handler) as (upstream, url, _):
        with await upstream.send("POST", url, {}, b"x") as answer:
            assert await answer.read() == b"all"


async def test_a_kept_connection_the_server_closed_is_not_a_failed_try() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()

    async with server(handler) as (upstream, url, connections):
        for _ in range(2):
            with await upstream.send("POST", url, {}, b"x") as answer:
                assert await answer.read() == b"ok"
        assert connections() == 2


async def test_what_is_no_http_is_a_cut() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"SSH-2.0-hello\r\n\r\n")
        await reader.read()

    async with server(handler) as (upstream, url, _):
        with pytest.raises(AnswerCut):
            await upstream.send("POST", url, {}, b"x")


async def test_nobody_listening_is_no_answer() -> None:
    with pytest.raises(NoAnswer):
        await Upstream(connect_s=0.5).send("GET", "http://127.0.0.1:1/", {})


async def test_a_reader_that_is_slow_slows_the_sender() -> None:
    sent = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 64000000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x" * 64_000)
            await writer.drain()
            sent += 64_000

    async with server(handler) as (upstream, url, _):
        with await upstream.send("GET", url, {}) as answer:
            await asyncio.sleep(0.1)
            assert sent < 32_000_000
            size = 0
            async for piece in answer.chunks():
                size += len(piece)
            assert size == 64_000_000
