"""Chores: keys are read again, what is too old is dropped, the outbox is pruned."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from prometheus_client import Counter

from alerts.delivery import DeliveryWorker
from base.clock import Clock
from base.selfmon import REGISTRY, Log
from collector.keys import Authenticator
from store.engine import Engine
from store.retention import newest_event, retain
from tokenweir.settings import Settings

log = Log(__name__)

KEYS_EVERY = timedelta(seconds=2)
OLD_EVERY = timedelta(minutes=10)
OUTBOX_EVERY = timedelta(hours=1)

FAILED = Counter(
    "tokenweir_upkeep_failures", "Chores that failed, by name.", ["chore"], registry=REGISTRY
)


class Upkeep:
    """One thread; a chore that fails is logged, counted and tried again when it is next due."""

    def __init__(
        self,
        store: Engine,
        authenticator: Authenticator,
        delivery: DeliveryWorker,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._chores: list[tuple[str, timedelta, Callable[[], object]]] = [
            ("keys", KEYS_EVERY, authenticator.refresh),
            ("retention", OLD_EVERY, self._drop_old),
            ("outbox", OUTBOX_EVERY, lambda: delivery.prune(clock.now())),
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=20)

    def _run(self) -> None:
        due = {
            name: self._clock.monotonic() + every.total_seconds() for name, every, _ in self._chores
        }
        while not self._stop.wait(0.5):
            for name, every, chore in self._chores:
                if self._clock.monotonic() < due[name]:
                    continue
                due[name] = self._clock.monotonic() + every.total_seconds()
                try:
                    chore()
                except Exception:
                    log.exception("chore_failed", chore=name)
                    FAILED.labels(name).inc()

    def _drop_old(self) -> None:
        newest = newest_event(self._store, self._clock.now())
        if newest is None:
            return
        retain(self._store, newest, self._settings.store)
