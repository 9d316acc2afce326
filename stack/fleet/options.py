"""What the command lines of `stack.fleet` and `stack.up` say about engines."""

from __future__ import annotations

import argparse

import httpx

from stack.engine.settings import EngineSettings
from stack.fleet.launchers import Command, External, InProcess, Launcher, simulated_command
from stack.fleet.replicas import FleetSettings
from stack.wire.options import add_otlp_options


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
    add_otlp_options(parser)
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
        otlp_key_file=args.otlp_key_file,
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
