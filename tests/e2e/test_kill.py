"""kill -9 of receiver, server and both under load: nothing acknowledged is lost or there twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.e2e.instance import Instance, wait_for
from tests.e2e.otlp import MS, SECOND, Sent, engine_span, export, gateway_span

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("e2e-kill"), pytest.mark.timeout(600)]

KILLS = 20
SEED = 20
REQUESTS_PER_POST = 8
SLO = "{kind: slo, name: answers, objective: 99, window: 1d, group_by: [tenant]}\n"


class Load:
    """Sends until told to stop. What was not acknowledged is sent again, as an SDK does."""

    def __init__(self, address: str, seed: int) -> None:
        self._address = f"{address}/v1/traces"
        self._rng = random.Random(seed)
        self.acknowledged: set[str] = set()
        self.spans = 0
        self.tries = 0
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self.stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        with httpx.Client(timeout=10, trust_env=False) as http:
            while not self.stop.is_set():
                calls = [self._call() for _ in range(REQUESTS_PER_POST)]
                spans = [each for call in calls for each in call]
                body = export(spans).SerializeToString()
                while not self._post(http, body):
                    time.sleep(0.05)
                self.acknowledged |= {call[0].span.trace_id.hex() for call in calls}
                self.spans += len(spans)
                time.sleep(0.02)

    def _post(self, http: httpx.Client, body: bytes) -> bool:
        self.tries += 1
        headers = {"content-type": "application/x-protobuf"}
        with contextlib.suppress(httpx.HTTPError):
            return http.post(self._address, content=body, headers=headers).status_code == 200
        return False

    def _call(self) -> list[Sent]:
        rng, start = self._rng, time.time_ns() - SECOND
        trace, gateway = rng.randbytes(16), rng.randbytes(8)
        return [
            gateway_span(
                trace, gateway, start, 400, tenant=rng.choice(["acme", "globex"]),
                status=rng.choice([200, 200, 200, 503]),
            ),
            engine_span(
                trace, rng.randbytes(8), gateway, start + MS, queue_ms=1, prefill_ms=30,
                decode_ms=300, prompt=100, completion=20, request_id=trace.hex(),
            ),
        ]  # fmt: skip


@pytest.mark.parametrize("kills", [8, pytest.param(KILLS, marks=pytest.mark.deep)])
def test_kills_lose_nothing_and_count_nothing_twice(
    tmp_path: Path, record_property: pytest.RecordProperty, kills: int
) -> None:
    (tmp_path / "slo.yaml").write_text(SLO)
    instance = Instance(tmp_path / "data", ["--slo", tmp_path / "slo.yaml"]).start()
    endpoints = dict(instance.endpoints)
    load = Load(endpoints["otlp_http"], SEED)
    rng = random.Random(SEED)
    begun = time.monotonic()
    killed = {"receiver": 0, "server": 0}
    try:
        for _ in range(kills):
            for target in rng.choice([["receiver"], ["server"], ["receiver", "server"]]):
                pid = wait_for(f"a {target}", lambda t=target: instance.children().get(t), 90)
                os.kill(pid, signal.SIGKILL)
                killed[target] += 1
            wait_until = time.monotonic() + rng.uniform(0.02, 2.5)
            wait_for("the next kill", lambda at=wait_until: time.monotonic() > at)
        wait_for("both again", lambda: len(instance.children()) == 2, 90)
        wait_for("readiness", lambda: _is_ready(instance), 90)
        before = len(load.acknowledged)
        wait_for("an acknowledgement", lambda: len(load.acknowledged) > before)
        load.join()
        took_s = time.monotonic() - begun
        instance.settle(120)

        shown = instance.requests()
        seen = [fact["trace_id"] for fact in shown]
        assert len(seen) == len({*seen}), "counted twice"
        assert {*seen} == load.acknowledged
        assert {fact["usage_source"] for fact in shown} == {"engine"}
        assert {len(fact["sources"]) for fact in shown} == {2}
        slos = instance.ask("slos")["slos"]
        assert sum(body["total"] for body in slos) == len(load.acknowledged)
        told = instance.ask("ingest")
        accepted = sum(each["accepted"] for each in told["sources"])
        duplicate = sum(each["duplicate"] for each in told["sources"])
        assert accepted - duplicate == load.spans
        assert sum(each["dead_lettered"] for each in told["sources"]) == 0
        assert json.loads((instance.data / "endpoints.json").read_text()) == endpoints
        assert told["receiver"]["otlp_http"] == endpoints["otlp_http"], "the same ports"
    finally:
        load.join()
        code = instance.stop()
    assert code == 0
    assert sum(killed.values()) >= kills
    told_text = (
        f"{killed} kills in {took_s:.0f} s, {len(seen)} requests, {load.tries} posts, "
        f"{duplicate} spans sent twice"
    )
    record_property("kills", told_text)
    print(told_text)  # noqa: T201


def _is_ready(instance: Instance) -> bool:
    try:
        return instance.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False
