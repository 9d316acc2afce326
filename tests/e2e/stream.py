"""A source that sends requests of the present, good or bad, until it falls silent."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.e2e.instance import Instance
from tests.e2e.otlp import MS, SECOND, export, gateway_span


class Stream:
    """Ten requests a second of one gateway; a receiver that is away costs what is sent then."""

    def __init__(self, instance: Instance, tenant: str = "acme") -> None:
        self._instance = instance
        self._tenant = tenant
        self._rng = random.Random(5)
        self._stop = threading.Event()
        self.is_bad = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def burst(
        self, number: int, *, is_bad: bool, tenant: str | None = None, ago_s: float = 0
    ) -> None:
        """Send many at once, spread over the last three seconds (before `ago_s`)."""
        end = time.time_ns() - round(ago_s * SECOND)
        step = 3 * SECOND // number
        status = 503 if is_bad else 200
        spans = [
            gateway_span(
                self._rng.randbytes(16), self._rng.randbytes(8), end - each * step, 1,
                tenant=tenant or self._tenant, status=status,
            )
            for each in range(1, number + 1)
        ]  # fmt: skip
        assert self._instance.send(export(spans)).status_code == 200

    def _run(self) -> None:
        url = f"{self._instance.endpoints['otlp_http']}/v1/traces"
        headers = {"content-type": "application/x-protobuf"}
        with httpx.Client(timeout=5, trust_env=False) as http:
            while not self._stop.wait(0.1):
                sent = gateway_span(
                    self._rng.randbytes(16), self._rng.randbytes(8), time.time_ns() - 50 * MS, 50,
                    tenant=self._tenant, status=503 if self.is_bad else 200,
                )  # fmt: skip
                with contextlib.suppress(httpx.HTTPError):
                    http.post(url, content=export([sent]).SerializeToString(), headers=headers)


@contextmanager
def streaming(instance: Instance, tenant: str = "acme") -> Iterator[Stream]:
    stream = Stream(instance, tenant)
    try:
        yield stream
    finally:
        stream.end()
