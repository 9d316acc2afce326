"""A fleet that is listening, its engines behind a router."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx

from base.clock import Clock, SystemClock
from stack.engine.settings import EngineSettings
from stack.engine.spans import engine_resource
from stack.fleet.app import fleet_app
from stack.fleet.follow import Follower
from stack.fleet.options import engine_template, fleet_settings, make_launcher
from stack.fleet.replicas import Fleet, Phase, RouterAdmin
from stack.wire import names
from stack.wire.alive import AliveSpans, engine_attributes
from stack.wire.bearer import bearer
from stack.wire.exposure import warn_if_exposed
from stack.wire.otel import make_tracer
from stack.wire.serving import Listener, background, listen


@asynccontextmanager
async def serving_fleet(
    args: argparse.Namespace, router_url: str, address: str, *, when_ready: bool = False
) -> AsyncIterator[Listener]:
    """Serve a fleet for the block. `when_ready`: enter it when the first engines serve.

    `args` are those of `add_fleet_options`.
    """
    clock = SystemClock()
    async with httpx.AsyncClient(trust_env=False) as client:
        fleet = Fleet(
            fleet_settings(args),
            make_launcher(args, client),
            RouterAdmin(router_url, client),
            clock,
            holding=cold_start_spans(engine_template(args), clock),
        )
        loops = []
        if args.follow:
            loops.append(Follower(args.follow, args.follow_field, fleet, client).run())
        async with fleet.running(), background(*loops):
            if when_ready:
                async with asyncio.timeout(args.ready_within):
                    while fleet.count(Phase.READY) < fleet.desired:  # noqa: ASYNC110  a state, not an event
                        await asyncio.sleep(0.02)
            listener = await listen(fleet_app(fleet), address)
            warn_if_exposed(address, "fleet", "everything, PUT /replicas too")
            try:
                yield listener
            finally:
                await listener.stop()


def cold_start_spans(
    template: EngineSettings, clock: Clock
) -> Callable[[str], AbstractAsyncContextManager[None]]:
    """Account for the GPUs a replica holds before its engine can say so itself."""

    @asynccontextmanager
    async def holding(replica: str) -> AsyncIterator[None]:
        tracer, stop = make_tracer(
            names.ENGINE_SERVICE,
            replica,
            template.otlp_url,
            engine_resource(template.model),
            headers=bearer(template.otlp_key_file),
        )
        attributes = engine_attributes(template.model, template.gpu_type, template.gpu_count)
        alive = AliveSpans(tracer, names.ENGINE_ROLE, clock, attributes)
        async with background(alive.run()):
            yield
        # Sending the last of them must not delay the replica, should the collector be away.
        asyncio.get_running_loop().run_in_executor(None, stop)

    return holding
