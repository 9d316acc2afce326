"""The router's workers: who they are, how loaded, whether to be trusted with a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from base.clock import Clock
from base.errors import BadInput
from base.selfmon import Log
from stack.router.affinity import PrefixTable
from stack.router.breaker import Breaker, Circuit
from stack.router.choice import Option
from stack.wire.health import is_healthy

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class HealthRules:
    interval_s: float = 2.0
    timeout_s: float = 2.0
    failures_to_leave: int = 2
    successes_to_return: int = 1


@dataclass(slots=True)
class Worker:
    """One engine. `load` counts requests sent and not yet answered, `tokens` their prompts."""

    url: str
    name: str
    models: tuple[str, ...]
    breaker: Breaker
    prefixes: PrefixTable = field(default_factory=PrefixTable)
    healthy: bool = True
    draining: bool = False
    load: int = 0
    tokens: int = 0
    last_used: int = 0
    checks_in_a_row: int = 0

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80

    def describe(self) -> dict[str, Any]:
        """Write the worker as the admin interface shows it."""
        return {
            "url": self.url,
            "name": self.name,
            "model_id": self.models[0] if self.models else None,
            "models": list(self.models),
            "worker_type": "regular",
            "is_healthy": self.healthy,
            "state": "draining" if self.draining else "ready" if self.healthy else "unhealthy",
            "circuit": self.breaker.state.value,
            "load": self.load,
            "priority": 50,
            "cost": 1.0,
        }


class WorkerTable:
    """All workers, the draining ones among them until their last request has ended."""

    def __init__(
        self,
        clock: Clock,
        *,
        on_circuit: Callable[[str, Circuit, Circuit], None] = lambda _url, _was, _now: None,
        on_gone: Callable[[str], None] = lambda _url: None,
    ) -> None:
        self._clock = clock
        self._on_circuit = on_circuit
        self._on_gone = on_gone
        self._workers: dict[str, Worker] = {}
        self._sent = 0

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self._workers.values()))

    def get(self, url: str) -> Worker | None:
        return self._workers.get(url.rstrip("/"))

    def add(self, url: str, name: str, models: Sequence[str]) -> Worker:
        """Add a worker that was found healthy. Raises BadInput when it is there already."""
        url = url.rstrip("/")
        known = self._workers.get(url)
        if known is not None and not known.draining:
            raise BadInput(f"worker {url} is known already")
        breaker = Breaker(on_change=lambda was, now: self._on_circuit(url, was, now))
        worker = Worker(url, name or _name(url), tuple(models), breaker)
        if known is not None:  # it was leaving and is wanted again: its requests still count
            worker.load, worker.tokens = known.load, known.tokens
        self._workers[url] = worker
        log.info("worker_added", url=url, name=worker.name, models=list(models))
        return worker

    def remove(self, url: str) -> bool:
        """Send a worker no more requests; it is forgotten when those it has are answered."""
        worker = self.get(url)
        if worker is None:
            return False
        worker.draining = True
        log.info("worker_draining", url=worker.url, name=worker.name, load=worker.load)
        self._forget_if_idle(worker)
        return True

    def options(
        self, model: str | None, blocks: Sequence[bytes], exclude: Collection[str]
    ) -> list[Option]:
        """List the workers that may take a request now. `model` None: the request did not say."""
        now = self._clock.monotonic()
        return [
            Option(w.name, w.url, w.load, w.tokens, w.last_used, w.prefixes.matched(blocks))
            for w in self._workers.values()
            if w.healthy
            and not w.draining
            and w.url not in exclude
            and (model is None or model in w.models)
            and w.breaker.allows(now)
        ]

    def models(self) -> list[str]:
        return sorted({m for w in self._workers.values() if not w.draining for m in w.models})

    @contextmanager
    def sending(self, url: str, tokens: int, blocks: Sequence[bytes]) -> Iterator[Worker]:
        """Count a request against a worker while it is there."""
        worker = self._workers[url]
        worker.breaker.begin(self._clock.monotonic())
        worker.prefixes.remember(blocks)
        worker.load += 1
        worker.tokens += tokens
        self._sent += 1
        worker.last_used = self._sent
        try:
            yield worker
        finally:
            current = self._workers.get(url, worker)
            current.load -= 1
            current.tokens -= tokens
            self._forget_if_idle(current)

    def _forget_if_idle(self, worker: Worker) -> None:
        if worker.draining and worker.load == 0 and self._workers.get(worker.url) is worker:
            del self._workers[worker.url]
            self._on_gone(worker.url)
            log.info("worker_gone", url=worker.url, name=worker.name)


class HealthChecks:
    """Asks every worker's /health again and again: `await run()` in a task."""

    def __init__(self, table: WorkerTable, client: httpx.AsyncClient, rules: HealthRules) -> None:
        self._table = table
        self._client = client
        self._rules = rules

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._rules.interval_s)
            await asyncio.gather(*(self.check(worker) for worker in self._table))

    async def check(self, worker: Worker) -> None:
        """Ask once; only a number of equal answers in a row changes a worker's standing."""
        ok = await is_healthy(worker.url, self._client, self._rules.timeout_s)
        if ok == worker.healthy:
            worker.checks_in_a_row = 0
            return
        worker.checks_in_a_row += 1
        needed = self._rules.successes_to_return if ok else self._rules.failures_to_leave
        if worker.checks_in_a_row >= needed:
            worker.healthy = ok
            worker.checks_in_a_row = 0
            log.warning("worker_health_changed", url=worker.url, healthy=ok)


def _name(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}"
