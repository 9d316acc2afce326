"""The HTTP client of the data path: one request, one streamed answer, little CPU per chunk.

Gateway and router each relay every token once. httpx costs about 170 µs a chunk here, which is
most of a core at twenty streams; this client is httptools' C parser behind an asyncio protocol.
It does what a proxy on a trusted network needs and no more: HTTP/1.1, kept-alive connections,
flow control, and an honest answer to the one question that decides about retries: had a byte of
the answer arrived?
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Self, cast
from urllib.parse import urlsplit

import httptools

from base.errors import Retryable

CONNECT_S = 3.0
IDLE_PER_HOST = 64
_PAUSE_ABOVE = 256 * 1024


class NoAnswer(Retryable):
    """The connection failed before the first byte of an answer: another try cannot double it."""


class AnswerCut(Retryable):
    """The connection ended in the middle of an answer."""


class Answer:
    """A response whose head has arrived. Use it as a context manager, or call `close`."""

    def __init__(self, pool: Upstream, host: _Host, connection: _Connection) -> None:
        self.status = connection.parser.get_status_code()
        self.headers: Mapping[str, str] = connection.headers
        self._pool = pool
        self._host = host
        self._connection = connection

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes; what came while the reader was busy comes as one piece."""
        while (piece := await self._connection.read()) is not None:
            yield piece

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self.chunks()])

    def close(self) -> None:
        """Give the connection back, or drop it when the body was not read to its end."""
        self._pool.release(self._host, self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Upstream:
    """A pool of connections to any number of servers."""

    def __init__(self, connect_s: float = CONNECT_S) -> None:
        self._connect_s = connect_s
        self._idle: defaultdict[_Host, list[_Connection]] = defaultdict(list)

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Send a request and wait for the head of its answer.

        Raises NoAnswer when no byte of an answer came. Cancelling closes the connection, which
        is how the other side learns that nobody listens any more.
        """
        host, path = _split(url)
        request = _encode(method, host, path, headers, body)
        kept = self._take(host)
        if kept is not None:
            # The server may have closed a kept connection at this very moment: that is not a try.
            with contextlib.suppress(NoAnswer):
                return await self._exchange(host, kept, request, method)
        return await self._exchange(host, await self._connect(host), request, method)

    def release(self, host: _Host, connection: _Connection) -> None:
        idle = self._idle[host]
        if connection.reusable and len(idle) < IDLE_PER_HOST:
            idle.append(connection)
        else:
            connection.abort()

    def forget(self, url: str) -> None:
        """Close the idle connections to a server that is going away."""
        host, _ = _split(url)
        for connection in self._idle.pop(host, []):
            connection.abort()

    def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.abort()
        self._idle.clear()

    def _take(self, host: _Host) -> _Connection | None:
        idle = self._idle[host]
        while idle:
            connection = idle.pop()
            if connection.reusable:
                return connection
        return None

    async def _connect(self, host: _Host) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await loop.create_connection(_Connection, *host)
        except (OSError, TimeoutError) as error:
            raise NoAnswer(f"{host[0]}:{host[1]}: {type(error).__name__}") from error
        return connection

    async def _exchange(
        self, host: _Host, connection: _Connection, request: bytes, method: str
    ) -> Answer:
        try:
            await connection.ask(request, head_only=method == "HEAD")
        except BaseException:
            connection.abort()
            raise
        return Answer(self, host, connection)


_Host = tuple[str, int]


def _split(url: str) -> tuple[_Host, str]:
    parts = urlsplit(url)
    path = parts.path or "/"
    if parts.query:
        path += "?" + parts.query
    return (parts.hostname or "127.0.0.1", parts.port or 80), path


def _encode(method: str, host: _Host, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"host: {host[0]}:{host[1]}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method in {"POST", "PUT"}:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class _Connection(asyncio.Protocol):
    """One connection and the answer it is receiving; the `on_` methods are httptools' callbacks."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self._transport: asyncio.Transport | None = None
        self._wake: asyncio.Future[None] | None = None
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._paused = False
        self._head = False
        self._heard = False
        self._complete = True
        self._lost = False
        self._keep = True

    @property
    def reusable(self) -> bool:
        return self._complete and self._keep and not self._lost and not self._pieces

    async def ask(self, request: bytes, *, head_only: bool) -> None:
        """Write a request and wait for the head of its answer."""
        if self._lost or self._transport is None:
            raise NoAnswer("the kept connection was closed")
        self.parser = httptools.HttpResponseParser(self)
        self.headers = {}
        self._head = self._heard = self._complete = False
        self._transport.write(request)
        while not self._head:
            if self._lost:
                what = AnswerCut if self._heard else NoAnswer
                raise what("the connection closed before the head of an answer")
            await self._wait()
        if head_only:
            self._complete = True

    async def read(self) -> bytes | None:
        """Return what has arrived, waiting for something; None at the end of the body."""
        while not self._pieces:
            if self._complete:
                return None
            if self._lost:
                raise AnswerCut("the connection closed in the middle of an answer")
            await self._wait()
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        self._wake = asyncio.get_running_loop().create_future()
        await self._wake

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour only

    def data_received(self, data: bytes) -> None:
        self._heard = True
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._keep = False
            self._lost = True
            self.abort()
        if self._buffered > _PAUSE_ABOVE and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._notify()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  both mean it is over
        # Without a length or chunks the end of the connection is the end of the body.
        framed = {"content-length", "transfer-encoding"} & self.headers.keys()
        if self._head and not framed:
            self._complete = True
        self._lost = True
        self._notify()

    # httptools' callbacks

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.parser.get_status_code() // 100 != 1:  # 100 Continue and 103 are not the answer
            self._head = True
            self._keep = self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._buffered += len(body)

    def on_message_complete(self) -> None:
        if self._head:
            self._complete = True
