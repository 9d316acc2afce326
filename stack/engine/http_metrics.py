"""The HTTP metrics vLLM's API server adds to `/metrics`, measured around the application."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from base.clock import Clock

_FINE = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5),
    *(7.5, 10, 30, 60),
)


class HttpMetrics:
    """Middleware that counts requests to the given paths; others count as handler "none"."""

    def __init__(
        self, app: ASGIApp, registry: CollectorRegistry, clock: Clock, paths: Sequence[str]
    ) -> None:
        self._app = app
        self._clock = clock
        self._paths = frozenset(paths)
        self._requests = Counter(
            "http_requests",
            "Requests by method, status and handler.",
            ["method", "status", "handler"],
            registry=registry,
        )
        self._request_size = Summary(
            "http_request_size_bytes", "Size of requests.", ["handler"], registry=registry
        )
        self._response_size = Summary(
            "http_response_size_bytes", "Size of responses.", ["handler"], registry=registry
        )
        self._fine = Histogram(
            "http_request_duration_highr_seconds",
            "Latency, many buckets.",
            buckets=_FINE,
            registry=registry,
        )
        self._coarse = Histogram(
            "http_request_duration_seconds",
            "Latency by handler, few buckets.",
            ["method", "handler"],
            buckets=(0.1, 0.5, 1),
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNCOUNTED:
            await self._app(scope, receive, send)
            return
        began = self._clock.monotonic()
        status = 500
        sent = 0

        async def noting(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = _length(message["headers"])
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            self._count(scope, status, self._clock.monotonic() - began, sent)

    def _count(self, scope: Scope, status: int, took_s: float, sent: int) -> None:
        handler = scope["path"] if scope["path"] in self._paths else "none"
        method = scope["method"]
        self._requests.labels(method, f"{status // 100}xx", handler).inc()
        self._request_size.labels(handler).observe(_length(scope["headers"]))
        self._response_size.labels(handler).observe(sent)
        self._fine.observe(took_s)
        self._coarse.labels(method, handler).observe(took_s)


_UNCOUNTED = frozenset({"/metrics", "/health", "/load", "/ping", "/version"})


def _length(headers: Sequence[tuple[bytes, bytes]]) -> int:
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
