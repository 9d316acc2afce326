import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stack.serving import listen


class Collector:
    """An OTLP/HTTP receiver in memory that can be told to refuse."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.refuse_with: list[int] = []
        self.url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status = self.refuse_with.pop(0) if self.refuse_with else 200
        if status == 200:
            assert scope["path"] == "/v1/traces"
            self.requests.append(ExportTraceServiceRequest.FromString(body))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def spans(self, name: str) -> Iterator[tuple[Any, Any, Any]]:
        """Yield (resource, scope, span) of every span called `name`."""
        for request in self.requests:
            for of_resource in request.resource_spans:
                for of_scope in of_resource.scope_spans:
                    for span in of_scope.spans:
                        if span.name == name:
                            yield of_resource.resource, of_scope.scope, span


@pytest.fixture
def collector() -> Any:
    """An async context manager that gives a listening Collector."""

    @asynccontextmanager
    async def start() -> Any:
        collector = Collector()
        listener = await listen(collector)
        collector.url = listener.url
        try:
            yield collector
        finally:
            await listener.stop()

    return start


@pytest.fixture
def eventually() -> Any:
    """Poll a condition until it holds, for at most ten seconds."""

    async def wait(condition: Any) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.01)

    return wait
