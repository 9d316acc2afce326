"""The tick: judge, tell, act. Each stage is kept from taking the others down with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from prometheus_client import Counter, Gauge

from base.clock import Clock
from base.selfmon import REGISTRY, Log
from slo.verdict import Verdict

log = Log(__name__)

TICKS = Counter(
    "tokenweir_judge_ticks",
    "Evaluations, by stage and whether the stage ended well.",
    ["stage", "result"],
    registry=REGISTRY,
)
LAST = Gauge(
    "tokenweir_judge_last_tick_timestamp_seconds",
    "When verdicts were last made.",
    registry=REGISTRY,
)
TOOK = Gauge(
    "tokenweir_judge_tick_duration_seconds", "How long the last tick took.", registry=REGISTRY
)


class Evaluates(Protocol):
    def evaluate(self, now: datetime) -> list[Verdict]: ...


class Stage(Protocol):
    """What is told about verdicts: alerts, the control loop, gauges."""

    def __call__(self, verdicts: Sequence[Verdict], now: datetime) -> object: ...


class Judge:
    """Makes verdicts every `every` and hands them to the stages, in order."""

    def __init__(
        self,
        evaluator: Evaluates,
        stages: Sequence[tuple[str, Stage]],
        clock: Clock,
        every: timedelta,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._stages = stages
        self._clock = clock
        self._every = every
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._verdicts: tuple[Verdict, ...] = ()
        self._thread = threading.Thread(target=self._run, name="judge", daemon=True)

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """The newest verdicts; empty before the first tick."""
        return self._verdicts

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the loop to end and wait for the tick in progress."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=20)

    def tick(self) -> None:
        """Judge once. A failing stage is logged and counted; the next ones still run."""
        started = time.perf_counter()
        now = self._clock.now()
        try:
            self._verdicts = tuple(self._evaluator.evaluate(now))
        except Exception:
            log.exception("evaluation_failed")
            TICKS.labels("evaluate", "failed").inc()
            return
        TICKS.labels("evaluate", "ok").inc()
        LAST.set(now.timestamp())
        for name, stage in self._stages:
            try:
                stage(self._verdicts, now)
            except Exception:
                log.exception("stage_failed", stage=name)
                TICKS.labels(name, "failed").inc()
            else:
                TICKS.labels(name, "ok").inc()
        TOOK.set(time.perf_counter() - started)

    def _run(self) -> None:
        due = self._clock.monotonic()
        while not self._stop.is_set():
            self.tick()
            due = max(due + self._every.total_seconds(), self._clock.monotonic())
            if self._wait(max(0.0, due - self._clock.monotonic())):
                return
