"""A simulated vLLM replica that is listening: in its own process, or inside another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from base.clock import Clock, SystemClock
from stack.engine.app import EngineApp
from stack.engine.calibration import load_timing
from stack.engine.core import EngineCore
from stack.engine.http_metrics import HttpMetrics
from stack.engine.metrics import EngineMetrics
from stack.engine.settings import EngineSettings
from stack.engine.simulation import Simulation
from stack.engine.spans import engine_resource
from stack.wire import names
from stack.wire.alive import AliveSpans, engine_attributes
from stack.wire.bearer import bearer
from stack.wire.otel import make_provider
from stack.wire.serving import Listener, listen


class EngineServer:
    """A replica that is listening. Take it out of the router first, then drain, then close."""

    def __init__(
        self,
        settings: EngineSettings,
        listener: Listener,
        app: EngineApp,
        core: EngineCore,
        alive: asyncio.Task[None],
        stop_tracing: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.url = listener.url
        self._listener = listener
        self._app = app
        self._core = core
        self._alive = alive
        self._stop_tracing = stop_tracing

    @property
    def in_flight(self) -> int:
        """Sequences that are waiting or running."""
        return self._core.in_flight

    async def drain(self) -> None:
        """Refuse new requests (500, as vLLM does; /health stays 200) and finish the others.

        Returns when nothing is in flight, or after `drain_s`.
        """
        self._app.is_draining = True
        try:
            async with asyncio.timeout(self.settings.drain_s):
                await self._core.drained()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Stop at once: what is in flight is given up; spans in the queue are still sent."""
        self._core.close()
        await self._listener.stop()
        self._alive.cancel()
        await asyncio.gather(self._alive, return_exceptions=True)
        await asyncio.to_thread(self._stop_tracing)


async def serve(settings: EngineSettings, clock: Clock | None = None) -> EngineServer:
    """Start a replica on the running event loop."""
    clock = clock or SystemClock()
    provider, stop_tracing = make_provider(
        names.ENGINE_SERVICE,
        settings.instance,
        settings.otlp_url,
        engine_resource(settings.model),
        headers=bearer(settings.otlp_key_file),
    )
    metrics = EngineMetrics(settings)
    timing = load_timing(
        settings.timing_model, settings.timing_hardware, settings.timing_tensor_parallel
    ).slowed(1 / settings.speed)
    core = EngineCore(Simulation(settings.limits, timing, metrics), clock, settings.handover_s)
    app = EngineApp(settings, core, metrics, provider.get_tracer(names.ENGINE_SCOPE), clock)
    counted = HttpMetrics(
        app, metrics.registry, clock, [names.CHAT_PATH, names.COMPLETIONS_PATH, "/v1/models"]
    )
    listener = await listen(counted, f"{settings.host}:{settings.port}", drain_s=settings.drain_s)
    alive = AliveSpans(
        provider.get_tracer(names.STACK_SCOPE),
        names.ENGINE_ROLE,
        clock,
        engine_attributes(settings.model, settings.gpu_type, settings.gpu_count),
    )
    task = asyncio.create_task(alive.run(), name=f"alive {settings.instance}")
    return EngineServer(settings, listener, app, core, task, stop_tracing)
