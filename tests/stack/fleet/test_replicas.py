from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from base.clock import SystemClock
from base.errors import BadInput, Retryable
from stack.fleet.app import fleet_app
from stack.fleet.follow import Follower
from stack.fleet.replicas import Fleet, FleetSettings, Phase, RouterAdmin


class FakeEngines:
    """Launches the bench's fake engines; `broken` makes launches fail."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self.engines: dict[str, Any] = {}
        self.broken = False

    async def launch(self, replica: str) -> FakeRunning:
        if self.broken:
            raise Retryable("out of memory")
        engine, url = await self._bench.engine()
        running = FakeRunning(url, engine)
        self.engines[replica] = running
        return running


class FakeRunning:
    def __init__(self, url: str, engine: Any) -> None:
        self.url = url
        self.engine = engine
        self.stopped = False
        self.died = asyncio.Event()

    async def ended(self) -> None:
        await self.died.wait()

    async def stop(self) -> None:
        self.stopped = True


async def until(true: Any) -> None:
    async with asyncio.timeout(8):
        while not true():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running_fleet(
    bench: Any, **settings: Any
) -> AsyncIterator[tuple[Fleet, FakeEngines, str]]:
    router_url = await bench.router()
    engines = FakeEngines(bench)
    fleet = Fleet(
        FleetSettings(**settings), engines, RouterAdmin(router_url, bench.http), SystemClock()
    )
    async with fleet.running():
        await until(lambda: fleet.count(Phase.READY) == fleet.desired or engines.broken)
        yield fleet, engines, router_url


async def test_the_document_is_the_contract(bench: Any) -> None:
    async with running_fleet(bench, desired=2, least=1, most=4) as (fleet, _, _router):
        url = await bench.serve(fleet_app(fleet))
        shown = (await bench.http.get(f"{url}/replicas")).json()

        changed = await bench.http.put(
            f"{url}/replicas", json={"desired": 3, "lease_id": "L1", "by": "tokenweir"}
        )
        await until(lambda: fleet.count(Phase.READY) == 3)
        metrics = (await bench.http.get(f"{url}/metrics")).text

    assert {k: shown[k] for k in ("desired", "ready", "pending", "min", "max", "last_change")} == {
        "desired": 2,
        "ready": 2,
        "pending": 0,
        "min": 1,
        "max": 4,
        "last_change": None,
    }
    first = shown["replicas"][0]
    assert (first["id"], first["state"], first["gpu_type"], first["gpu_count"]) == (
        "r0",
        "ready",
        "h100",
        4,
    )
    assert first["url"].startswith("http://127.0.0.1:")
    assert first["started_at"].endswith("Z")
    assert changed.json()["desired"] == 3
    assert changed.json()["pending"] == 1
    assert changed.json()["last_change"]["by"] == "tokenweir"
    assert changed.json()["last_change"]["lease_id"] == "L1"
    assert "tokenweir_fleet_ready_replicas 3.0" in metrics


@pytest.mark.parametrize(
    "body",
    [{"desired": 0}, {"desired": 9}, {"desired": 1.5}, {"desired": True}, {}, [], {"desired": "2"}],
)
async def test_a_wish_outside_the_bounds_is_refused_and_changes_nothing(
    bench: Any, body: Any
) -> None:
    async with running_fleet(bench, desired=2, least=1, most=4) as (fleet, _, _router):
        url = await bench.serve(fleet_app(fleet))

        answer = await bench.http.put(f"{url}/replicas", json=body)

        assert answer.status_code == 400
        assert fleet.desired == 2


async def test_scaling_up_and_down_under_load_loses_no_request(bench: Any) -> None:
    async with running_fleet(bench, desired=1, least=1, most=3) as (fleet, engines, router_url):
        url = await bench.gateway(router_url)
        answers: list[httpx.Response] = []
        stop = asyncio.Event()

        async def client(number: int) -> None:
            while not stop.is_set():
                answers.append(await bench.chat(url, f"say 30 {number}", stream=True))

        clients = [asyncio.create_task(client(n)) for n in range(6)]
        for wanted in (3, 1, 2, 1):
            fleet.set_desired(wanted, by="test")
            await until(lambda wanted=wanted: fleet.count(Phase.READY) == wanted)
            await until(lambda: fleet.count(Phase.DRAINING) == 0)
        stop.set()
        await asyncio.gather(*clients)

        assert len(answers) > 20
        assert all(a.status_code == 200 and a.text.endswith("[DONE]\n\n") for a in answers)
        assert sum(running.stopped for running in engines.engines.values()) == 3
        assert list(engines.engines)[:3] == ["r0", "r1", "r2"]


async def test_a_leaving_replica_finishes_its_stream_before_it_stops(bench: Any) -> None:
    async with running_fleet(bench, desired=2, least=1, most=2) as (fleet, engines, router_url):
        bench.the_router.workers.get(engines.engines["r0"].url).load = 5  # r1 is preferred
        stream = asyncio.create_task(bench.chat(router_url, "slow", stream=True))
        youngest = engines.engines["r1"]
        await until(lambda: youngest.engine.bodies)

        fleet.set_desired(1, by="test")
        await until(lambda: fleet.count(Phase.DRAINING) == 1)
        await asyncio.sleep(0.15)
        assert not youngest.stopped
        youngest.engine.release.set()

        assert (await stream).text.endswith("[DONE]\n\n")
        await until(lambda: youngest.stopped)
        bench.the_router.workers.get(engines.engines["r0"].url).load = 0


async def test_a_replica_not_wanted_any_more_gives_up_its_cold_start(bench: Any) -> None:
    async with running_fleet(bench, desired=1, least=1, most=3) as (fleet, engines, _):
        fleet._settings = FleetSettings(desired=1, least=1, most=3, cold_start_s=60)
        fleet.set_desired(3, by="test")
        await until(lambda: fleet.document()["pending"] == 2)

        fleet.set_desired(1, by="test")

        await until(lambda: len(fleet.document()["replicas"]) == 1)
        assert list(engines.engines) == ["r0"]


async def test_an_engine_that_dies_is_replaced(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stack.fleet.replicas._AFTER_FAILURE_S", 0.01)
    async with running_fleet(bench, desired=1, least=1, most=2) as (fleet, engines, _):
        engines.engines["r0"].died.set()

        await until(lambda: "r1" in engines.engines and fleet.count(Phase.READY) == 1)

        assert engines.engines["r0"].stopped
        assert "ended by itself" in fleet.document()["last_error"]


async def test_an_engine_that_does_not_start_is_tried_again(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stack.fleet.replicas._AFTER_FAILURE_S", 0.01)
    async with running_fleet(bench, desired=1, least=1, most=2) as (fleet, engines, _):
        engines.broken = True
        fleet.set_desired(2, by="test")
        await until(lambda: "out of memory" in str(fleet.document()["last_error"]))

        engines.broken = False

        await until(lambda: fleet.count(Phase.READY) == 2)


async def test_a_router_that_forgot_a_replica_is_told_again(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stack.fleet.replicas._REGISTER_EVERY_S", 0.02)
    async with running_fleet(bench, desired=1, least=1, most=2) as (_, engines, router_url):
        url = engines.engines["r0"].url
        await bench.http.post(f"{router_url}/remove_worker", params={"url": url})

        await until(lambda: bench.the_router.workers.get(url))


async def test_a_stop_drains_every_replica(bench: Any) -> None:
    async with running_fleet(bench, desired=2, least=1, most=2) as (_, engines, _router):
        pass

    assert all(running.stopped for running in engines.engines.values())


class FakeTarget:
    """A fleet as the follower sees it."""

    desired = 2

    def set_desired(self, count: int, *, by: str, lease_id: str | None = None) -> None:
        if count > 4:
            raise BadInput("desired is outside")
        self.desired = count


@pytest.mark.parametrize(
    ("answer", "desired", "holds"),
    [
        (httpx.Response(200, json={"scaling": {"desired": 3}}), 3, False),
        (httpx.Response(200, json={"scaling": {"desired": "4"}}), 4, False),
        (httpx.Response(200, json={"scaling": {"desired": 9}}), 2, True),
        (httpx.Response(200, json={"scaling": {"desired": 2.5}}), 2, True),
        (httpx.Response(200, json={"scaling": {"desired": None}}), 2, True),
        (httpx.Response(200, json={"scaling": {"desired": "NaN"}}), 2, True),
        (httpx.Response(200, json=[]), 2, True),
        (httpx.Response(200, text="<html>"), 2, True),
        (httpx.Response(503, json={"error": "stale"}), 2, True),
        (httpx.ConnectError("refused"), 2, True),
    ],
)
async def test_a_follower_obeys_a_number_and_holds_on_everything_else(
    answer: Any, desired: int, holds: bool
) -> None:
    def control(_request: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    fleet: Any = FakeTarget()
    client = httpx.AsyncClient(transport=httpx.MockTransport(control))
    follower = Follower("http://control/api/v1/scaling/chat", "scaling.desired", fleet, client)

    await follower.poll()

    assert fleet.desired == desired
    assert (follower.holding is not None) is holds
