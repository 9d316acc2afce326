"""The heartbeat of a stack process, which is also its GPU-hours record.

Each `tokenweir.alive` span covers the time since the last one, without a gap, so the spans of a
replica add up to how long it existed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from opentelemetry.context import Context
from opentelemetry.trace import Tracer
from opentelemetry.util.types import AttributeValue

from base.clock import Clock
from stack.wire import names
from stack.wire.otel import unix_nano

FIRST_S = 1.0
EVERY_S = 10.0


class AliveSpans:
    """Emits a process's alive spans: `await run()` in a task, cancel it to stop."""

    def __init__(
        self,
        tracer: Tracer,
        role: str,
        clock: Clock,
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> None:
        self._tracer = tracer
        self._attributes = {names.ROLE: role, **(attributes or {})}
        self._clock = clock
        self._covered_to: datetime = clock.now()

    def beat(self) -> None:
        """Emit one span from the end of the last one to now."""
        now = self._clock.now()
        if now <= self._covered_to:
            return
        span = self._tracer.start_span(
            names.ALIVE_SPAN,
            context=Context(),
            attributes=self._attributes,
            start_time=unix_nano(self._covered_to),
        )
        span.end(end_time=unix_nano(now))
        self._covered_to = now

    async def run(self) -> None:
        """Beat soon after the start, then every ten seconds, and once more when cancelled."""
        try:
            await asyncio.sleep(FIRST_S)
            while True:
                self.beat()
                await asyncio.sleep(EVERY_S)
        finally:
            self.beat()


def engine_attributes(model: str, gpu_type: str, gpu_count: int) -> dict[str, AttributeValue]:
    """Say what hardware a replica holds while it is alive."""
    return {
        names.REQUEST_MODEL: model,
        names.GPU_TYPE: gpu_type,
        names.GPU_COUNT: gpu_count,
    }
