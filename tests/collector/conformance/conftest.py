"""Receivers in this process, on a clock that stands still: for what is refused for a while."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from base.clock import ManualClock
from collector.receiver import Endpoints, ReceiverSettings, serve
from collector.settings import CollectorSettings


@dataclass(frozen=True, slots=True)
class Served:
    http: str
    grpc: str
    data: Path
    clock: ManualClock


Serve = Callable[..., Served]


@pytest.fixture(scope="module")
def serve_here() -> Iterator[Serve]:
    """Serve in one thread until the module's tests are done: gRPC wants all of it in one loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    serving: list[tuple[asyncio.Event, Future[None]]] = []

    def start(data: Path, **settings: object) -> Served:
        clock, found = ManualClock(datetime(2026, 11, 30, tzinfo=UTC)), Future[Endpoints]()
        asked = ReceiverSettings(
            data,
            f"sqlite:///{data}/control.db",
            CollectorSettings.model_validate(settings),
            otlp_grpc="127.0.0.1:0",
            otlp_http="127.0.0.1:0",
        )
        stop = asyncio.Event()
        served = serve(asked, stop, found.set_result, clock)
        serving.append((stop, asyncio.run_coroutine_threadsafe(served, loop)))
        endpoints = found.result(20)
        return Served(endpoints.otlp_http, endpoints.otlp_grpc, data, clock)

    yield start
    for stop, served in serving:
        loop.call_soon_threadsafe(stop.set)
        served.result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()
