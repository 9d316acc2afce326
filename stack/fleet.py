"""The fleet: `python -m stack.fleet` keeps engines behind a router and obeys PUT /replicas."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from base.clock import Clock, SystemClock
from base.errors import BadInput
from base.selfmon import set_up_logging
from stack import names
from stack.alive import AliveSpans, engine_attributes
from stack.engine_settings import EngineSettings
from stack.engine_spans import engine_resource
from stack.follow import Follower
from stack.launchers import Command, External, InProcess, Launcher, simulated_command
from stack.otel import make_tracer
from stack.replicas import Fleet, FleetSettings, Phase, RouterAdmin
from stack.serving import announce, background, listen, until_signalled


def fleet_app(fleet: Fleet) -> Starlette:
    """Build the HTTP face of a fleet."""
    registry = CollectorRegistry()
    for name, help_text, read in (
        ("desired", "Replicas asked for", lambda: fleet.desired),
        ("ready", "Replicas serving", lambda: fleet.count(Phase.READY)),
        ("starting", "Replicas in their cold start", lambda: fleet.count(Phase.STARTING)),
        ("draining", "Replicas finishing their requests", lambda: fleet.count(Phase.DRAINING)),
    ):
        Gauge(f"tokenweir_fleet_{name}_replicas", help_text, registry=registry).set_function(read)

    async def show(_request: Request) -> Response:
        return JSONResponse(fleet.document())

    async def change(request: Request) -> Response:
        try:
            body = json.loads(await request.body())
            count = body["desired"]
            if isinstance(count, bool) or not isinstance(count, int):
                return _problem("field 'desired' must be a whole number")
            lease_id = body.get("lease_id")
            fleet.set_desired(count, by=str(body.get("by", "unknown")), lease_id=lease_id)
        except (ValueError, KeyError, TypeError, AttributeError):
            return _problem("the body must be a JSON object with 'desired'")
        except BadInput as error:
            return _problem(str(error))
        return JSONResponse(fleet.document())

    async def health(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/replicas", show, methods=["GET"]),
            Route("/replicas", change, methods=["PUT"]),
            Route("/health", health),
            Route("/metrics", metrics),
        ]
    )


def cold_start_spans(
    template: EngineSettings, clock: Clock
) -> Callable[[str], AbstractAsyncContextManager[None]]:
    """Account for the GPUs a replica holds before its engine can say so itself."""

    @asynccontextmanager
    async def holding(replica: str) -> AsyncIterator[None]:
        tracer, stop = make_tracer(
            names.ENGINE_SERVICE, replica, template.otlp_url, engine_resource(template.model)
        )
        attributes = engine_attributes(template.model, template.gpu_type, template.gpu_count)
        alive = AliveSpans(tracer, names.ENGINE_ROLE, clock, attributes)
        async with background(alive.run()):
            yield
        # Sending the last of them must not delay the replica, should the collector be away.
        asyncio.get_running_loop().run_in_executor(None, stop)

    return holding


def make_launcher(args: argparse.Namespace, client: httpx.AsyncClient) -> Launcher:
    """Choose how engines are made from the command line."""
    if args.engine_url:
        return External(args.engine_url, client)
    if args.engine_command:
        return Command(args.engine_command, client, args.ready_within)
    template = engine_template(args)
    if args.mode == "process":
        return Command(simulated_command(template), client, args.ready_within)
    return InProcess(template)


def engine_template(args: argparse.Namespace) -> EngineSettings:
    return EngineSettings(
        model=args.model,
        otlp_url=args.otlp,
        gpu_type=args.gpu_type,
        gpu_count=args.gpu_count,
        speed=args.speed,
    )


def fleet_settings(args: argparse.Namespace) -> FleetSettings:
    most = len(args.engine_url) if args.engine_url else args.max
    return FleetSettings(
        desired=min(args.engines, most),
        least=args.min,
        most=most,
        cold_start_s=args.cold_start,
        gpu_type=args.gpu_type,
        gpu_count=args.gpu_count,
    )


def add_fleet_options(parser: argparse.ArgumentParser) -> None:
    """Add what `stack.fleet` and `stack.up` share."""
    base = EngineSettings()
    option = parser.add_argument
    option("--engines", type=int, default=2, help="replicas at the start")
    option("--min", type=int, default=1)
    option("--max", type=int, default=4)
    option("--cold-start", type=float, default=0.0, metavar="S", help="before a replica serves")
    option("--model", default=base.model)
    option("--speed", type=float, default=base.speed, help="2: engines twice as fast as real ones")
    option("--gpu-type", default=base.gpu_type)
    option("--gpu-count", type=int, default=base.gpu_count)
    option("--otlp", metavar="URL", help="OTLP/HTTP collector; none: no spans are sent")
    option("--mode", choices=("in-process", "process"), default="in-process")
    option(
        "--engine-command",
        metavar="COMMAND",
        help="starts a real engine, e.g. 'vllm serve ./tiny --port {port} "
        "--served-model-name tiny --otlp-traces-endpoint http://127.0.0.1:4317'",
    )
    option("--engine-url", action="append", metavar="URL", help="an engine that runs already")
    option("--ready-within", type=float, default=600.0, metavar="S", help="for a started process")
    option("--follow", metavar="URL", help="poll this for the number of replicas, and obey")
    option("--follow-field", default="desired", help="where the number is in the answer")


async def _serve(args: argparse.Namespace) -> None:
    clock = SystemClock()
    async with httpx.AsyncClient(trust_env=False) as client:
        fleet = Fleet(
            fleet_settings(args),
            make_launcher(args, client),
            RouterAdmin(args.router, client),
            clock,
            holding=cold_start_spans(engine_template(args), clock),
        )
        loops = []
        if args.follow:
            loops.append(Follower(args.follow, args.follow_field, fleet, client).run())
        async with fleet.running(), background(*loops):
            listener = await listen(fleet_app(fleet), args.listen)
            announce(url=listener.url, metrics=f"{listener.url}/metrics")
            await until_signalled()
            await listener.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stack.fleet", description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    parser.add_argument("--router", required=True, metavar="URL")
    add_fleet_options(parser)
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    asyncio.run(_serve(parser.parse_args()))


def _problem(message: str) -> Response:
    return JSONResponse({"error": message}, 400)


if __name__ == "__main__":
    main()
