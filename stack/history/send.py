"""Sends bodies to an OTLP/HTTP collector: a few connections, in order, patient when it is busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import httpx

from base.errors import Permanent, Retryable
from base.outbound import http_client, redact_url
from stack.wire.otel import traces_url

CONNECTIONS = 3
TRIES = 60
_TEMPORARY = {408, 429, 502, 503, 504}
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SendReport:
    """What was acknowledged, and how long it took with making it."""

    bodies: int
    bytes: int
    seconds: float
    retries: int


def send_history(
    bodies: Iterable[bytes],
    otlp_url: str,
    *,
    headers: Mapping[str, str] | None = None,
    connections: int = CONNECTIONS,
    progress: Progress | None = None,
) -> SendReport:
    """Send every body and return when all are acknowledged.

    `progress` is told how many are. At most twice as many bodies as connections are in memory.
    Raises Permanent when the collector refuses one, Retryable when it stays away for a minute.
    """
    url = traces_url(otlp_url)
    headers = {**(headers or {}), "content-type": "application/x-protobuf"}
    began = time.monotonic()
    sent = size = retries = 0
    stop = threading.Event()
    with (
        http_client(total_s=60) as client,
        ThreadPoolExecutor(connections, thread_name_prefix="history") as pool,
    ):
        in_flight: set[Future[int]] = set()
        try:
            for body in bodies:
                size += len(body)
                in_flight.add(pool.submit(_send, client, url, headers, body, stop))
                while len(in_flight) >= 2 * connections:
                    done, in_flight = wait(in_flight, return_when=FIRST_COMPLETED)
                    retries += sum(future.result() for future in done)
                    sent += len(done)
                    if progress:
                        progress(sent)
            for future in in_flight:
                retries += future.result()
                sent += 1
                if progress:
                    progress(sent)
        finally:
            stop.set()
    return SendReport(sent, size, time.monotonic() - began, retries)


def _send(
    client: httpx.Client, url: str, headers: Mapping[str, str], body: bytes, stop: threading.Event
) -> int:
    """Send one body; return how many tries failed before."""
    for attempt in range(TRIES):
        why, after_s = "", 1.0
        try:
            answer = client.post(url, content=body, headers=headers)
        except httpx.TransportError as error:
            why = type(error).__name__
        else:
            if answer.is_success:
                return attempt
            why = f"status {answer.status_code}"
            if answer.status_code not in _TEMPORARY:
                raise Permanent(f"{redact_url(url)} refused history: {why}: {answer.text[:200]}")
            asked = answer.headers.get("retry-after", "")
            after_s = float(asked) if asked.isdigit() else after_s
        if stop.wait(min(after_s, 5.0)):
            break
    raise Retryable(f"{redact_url(url)} did not take history: {why}")
