"""Keeps as many engine replicas as are desired, and loses no request when one leaves.

A replica's life is one task: start (the cold start takes its time), register with the router,
serve, leave the router, finish what is in flight, stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import httpx

from base.clock import Clock
from base.durations import format_instant
from base.errors import BadInput, Retryable
from base.selfmon import Log
from stack.fleet.launchers import Launcher, RunningEngine
from stack.wire.serving import background

log = Log(__name__)

T = TypeVar("T")

_WATCH_EVERY_S = 0.1
_AFTER_FAILURE_S = 2.0
_REGISTER_EVERY_S = 5.0


class Phase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class FleetSettings:
    desired: int = 2
    least: int = 1
    most: int = 4
    cold_start_s: float = 0.0
    drain_s: float = 120.0
    gpu_type: str = "h100"
    gpu_count: int = 4


@dataclass(frozen=True, slots=True)
class Change:
    by: str
    lease_id: str | None
    at: datetime


@dataclass(slots=True, eq=False)
class Replica:
    id: str
    started_at: datetime
    phase: Phase = Phase.STARTING
    url: str | None = None
    unwanted: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Fleet:
    """The autoscaler's target. `holding` wraps a cold start: the GPUs are held, nothing serves."""

    def __init__(
        self,
        settings: FleetSettings,
        launcher: Launcher,
        router: RouterAdmin,
        clock: Clock,
        *,
        holding: Callable[[str], AbstractAsyncContextManager[Any]] = lambda _id: nullcontext(),
    ) -> None:
        self._settings = settings
        self._launcher = launcher
        self._router = router
        self._clock = clock
        self._holding = holding
        self._replicas: list[Replica] = []
        self._made = 0
        self._last_change: Change | None = None
        self._last_error: str | None = None
        self.desired = settings.desired

    def set_desired(self, count: int, *, by: str, lease_id: str | None = None) -> None:
        """Change the number of replicas. Raises BadInput when it is outside the fleet's bounds."""
        least, most = self._settings.least, self._settings.most
        if not least <= count <= most:
            raise BadInput(f"desired {count} is outside this fleet's {least} to {most}")
        if count != self.desired:
            log.info("desired_changed", was=self.desired, now=count, by=by, lease_id=lease_id)
        self.desired = count
        self._last_change = Change(by, lease_id, self._clock.now())
        self._reconcile()

    def count(self, phase: Phase) -> int:
        return sum(replica.phase is phase for replica in self._replicas)

    def document(self) -> dict[str, Any]:
        """Write the fleet's state as GET and PUT /replicas answer it."""
        change = self._last_change
        return {
            "desired": self.desired,
            "ready": self.count(Phase.READY),
            "pending": self.count(Phase.STARTING),
            "min": self._settings.least,
            "max": self._settings.most,
            "replicas": [self._describe(replica) for replica in self._replicas],
            "last_change": change
            and {
                "by": change.by,
                "lease_id": change.lease_id,
                "at": format_instant(change.at),
            },
            "last_error": self._last_error,
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start the desired replicas; drain and stop all of them when the block ends."""
        self._reconcile()
        async with background(self._keep_registered()):
            try:
                yield
            finally:
                self.desired = 0
                self._reconcile()
                await asyncio.gather(
                    *(r.task for r in list(self._replicas) if r.task), return_exceptions=True
                )

    def _reconcile(self) -> None:
        staying = [r for r in self._replicas if not r.unwanted.is_set()]
        # The youngest leave first: one that has not served yet is the cheapest to give up.
        for replica in staying[self.desired :]:
            replica.unwanted.set()
        for _ in range(self.desired - len(staying)):
            replica = Replica(f"r{self._made}", self._clock.now())
            self._made += 1
            self._replicas.append(replica)
            replica.task = asyncio.create_task(self._live(replica), name=f"replica {replica.id}")

    async def _live(self, replica: Replica) -> None:
        engine: RunningEngine | None = None
        try:
            async with self._holding(replica.id):
                engine = await _unless(replica.unwanted, self._start(replica))
            if engine is not None:
                replica.url = engine.url
                await _unless(replica.unwanted, self._serve(replica, engine))
        except (BadInput, Retryable) as error:
            self._last_error = f"{replica.id}: {error}"
            log.error("replica_failed", replica=replica.id, error=str(error))
            await _unless(replica.unwanted, asyncio.sleep(_AFTER_FAILURE_S))
        finally:
            if engine is not None:
                await self._leave(replica, engine)
            self._replicas.remove(replica)
            self._reconcile()

    async def _start(self, replica: Replica) -> RunningEngine:
        await asyncio.sleep(self._settings.cold_start_s)
        return await self._launcher.launch(replica.id)

    async def _serve(self, replica: Replica, engine: RunningEngine) -> None:
        """Return never: raises when the router refuses the engine or the engine dies."""
        while True:
            try:
                await self._router.add(engine.url, replica.id)
                break
            except Retryable as error:  # an engine that took a minute to start can wait for it
                self._last_error = f"{replica.id}: {error}"
                await asyncio.sleep(_AFTER_FAILURE_S)
        replica.phase = Phase.READY
        log.info("replica_ready", replica=replica.id, url=engine.url)
        await engine.ended()
        raise Retryable("the engine ended by itself")

    async def _leave(self, replica: Replica, engine: RunningEngine) -> None:
        replica.phase = Phase.DRAINING
        try:
            await self._router.remove(engine.url)
            async with asyncio.timeout(self._settings.drain_s):
                while await self._router.load(engine.url):  # noqa: ASYNC110  it is elsewhere
                    await asyncio.sleep(_WATCH_EVERY_S)
        except (Retryable, TimeoutError) as error:
            log.warning("drain_incomplete", replica=replica.id, error=str(error) or "too slow")
        await engine.stop()
        log.info("replica_stopped", replica=replica.id)

    async def _keep_registered(self) -> None:
        """Put ready replicas back into a router that was restarted and knows them no more."""
        while True:
            await asyncio.sleep(_REGISTER_EVERY_S)
            for replica in self._replicas:
                if replica.phase is Phase.READY and replica.url is not None:
                    try:
                        if await self._router.load(replica.url) is None:
                            await self._router.add(replica.url, replica.id)
                    except (BadInput, Retryable) as error:
                        self._last_error = f"{replica.id}: {error}"

    def _describe(self, replica: Replica) -> dict[str, Any]:
        return {
            "id": replica.id,
            "url": replica.url,
            "state": replica.phase.value,
            "started_at": format_instant(replica.started_at),
            "gpu_type": self._settings.gpu_type,
            "gpu_count": self._settings.gpu_count,
        }


class RouterAdmin:
    """The router's admin interface as the fleet uses it."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url = url.rstrip("/")
        self._client = client

    async def add(self, url: str, name: str) -> None:
        """Register an engine. Raises BadInput when the router refuses it for good."""
        answer = await self._call("POST", "/add_worker", {"url": url, "name": name}, wait_s=60)
        if answer.is_success:
            return
        body = answer.json() if "json" in answer.headers.get("content-type", "") else {}
        if body.get("code") == "known":
            return
        what = f"the router refused {url}: {body.get('error', answer.status_code)}"
        raise Retryable(what) if body.get("code") == "unhealthy" else BadInput(what)

    async def remove(self, url: str) -> None:
        await self._call("POST", "/remove_worker", {"url": url})

    async def load(self, url: str) -> int | None:
        """Count an engine's requests in flight at the router; None when it is not there."""
        answer = await self._call("GET", f"/workers/{url}", {})
        return int(answer.json()["load"]) if answer.is_success else None

    async def _call(
        self, method: str, path: str, params: dict[str, str], wait_s: float = 5
    ) -> httpx.Response:
        try:
            return await self._client.request(
                method, self._url + path, params=params, timeout=wait_s
            )
        except httpx.HTTPError as error:
            raise Retryable(f"router {self._url}: {type(error).__name__}") from error


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Do the work unless `stop` is set first: then cancel it and return None."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        stopped.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)
