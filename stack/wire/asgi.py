"""Small ASGI pieces of gateway and router: read a body, notice a leaving client, answer once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from starlette.types import Receive, Send

T = TypeVar("T")


class ClientLeft(Exception):  # noqa: N818  it is an event, not a fault
    """The client closed its connection before it had its whole answer."""


class BodyTooLarge(Exception):  # noqa: N818  the gateway and the router answer it differently
    """The request's body passed the limit."""


async def read_body(receive: Receive, limit: int) -> bytes:
    """Read the whole request body. Raises BodyTooLarge and ClientLeft."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


async def while_present(receive: Receive, work: Coroutine[object, object, T]) -> T:
    """Do the work unless the client leaves first: then the work is cancelled, ClientLeft raised."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


class Reply:
    """One answer, whole or in pieces, that remembers how far it got."""

    def __init__(self, send: Send, headers: Mapping[str, str]) -> None:
        self._send = send
        self.headers = dict(headers)
        self.status: int | None = None

    @property
    def started(self) -> bool:
        return self.status is not None

    async def whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        await self.start(status, {**headers, "content-length": str(len(body))})
        await self.end(body)

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    (name.encode("latin-1"), value.encode("latin-1"))
                    for name, value in {**self.headers, **headers}.items()
                ],
            }
        )

    async def piece(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def header_map(scope: Mapping[str, Any]) -> dict[str, str]:
    """Read an ASGI scope's headers; names are lower case, the last of equal names wins."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
