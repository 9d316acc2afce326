"""What a simulated engine is told when it starts; flags are named as vLLM's where it has them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stack.engine.calibration import DEFAULT_HARDWARE, DEFAULT_MODEL, DEFAULT_TENSOR_PARALLEL
from stack.engine.scheduler import EngineLimits
from stack.wire.options import add_otlp_options


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """One replica. `timing_*` choose the measurements, `model` is only the name it serves."""

    instance: str = "r0"
    model: str = "tiny-llama"
    host: str = "127.0.0.1"
    port: int = 0
    otlp_url: str | None = None
    otlp_key_file: Path | None = None
    gpu_type: str = "h100"
    gpu_count: int = 4
    speed: float = 1.0
    limits: EngineLimits = field(default_factory=EngineLimits)
    max_model_len: int = 32_768
    max_num_queued_reqs: int | None = None
    stream_interval_s: float = 0.2
    handover_s: float = 0.006
    """From the API server to the engine's queue: the part of TTFT in neither queue nor prefill."""
    drain_s: float = 30.0
    timing_model: str = DEFAULT_MODEL
    timing_hardware: str = DEFAULT_HARDWARE
    timing_tensor_parallel: int = DEFAULT_TENSOR_PARALLEL


def parse_arguments(argv: Sequence[str] | None = None) -> EngineSettings:
    """Read the command line of `python -m stack.engine`."""
    base, limits = EngineSettings(), EngineLimits()
    parser = argparse.ArgumentParser(
        prog="python -m stack.engine", description="A simulated vLLM: same API, spans and metrics."
    )
    option = parser.add_argument
    option("--host", default=base.host)
    option("--port", type=int, default=base.port, help="0 picks a free one")
    option("--instance", default=base.instance, help="service.instance.id of its spans")
    option("--model", default=base.model, help="the name it serves")
    add_otlp_options(parser)
    option("--gpu-type", default=base.gpu_type)
    option("--gpu-count", type=int, default=base.gpu_count)
    option("--speed", type=float, default=base.speed, help="2 is twice as fast as calibrated")
    option("--max-num-seqs", type=int, default=limits.max_num_seqs)
    option("--max-num-batched-tokens", type=int, default=limits.max_num_batched_tokens)
    option("--num-gpu-blocks", type=int, default=limits.num_gpu_blocks)
    option("--block-size", type=int, default=limits.block_size)
    option("--max-model-len", type=int, default=base.max_model_len)
    option("--max-num-queued-reqs", type=int, help="more waiting than this: 503")
    option("--scheduling-policy", choices=("fcfs", "priority"), default="fcfs")
    option("--shutdown-timeout", type=float, default=base.drain_s, help="seconds to drain")
    given = parser.parse_args(argv)
    return EngineSettings(
        instance=given.instance,
        model=given.model,
        host=given.host,
        port=given.port,
        otlp_url=given.otlp,
        otlp_key_file=given.otlp_key_file,
        gpu_type=given.gpu_type,
        gpu_count=given.gpu_count,
        speed=given.speed,
        limits=EngineLimits(
            max_num_seqs=given.max_num_seqs,
            max_num_batched_tokens=given.max_num_batched_tokens,
            num_gpu_blocks=given.num_gpu_blocks,
            block_size=given.block_size,
            by_priority=given.scheduling_policy == "priority",
        ),
        max_model_len=given.max_model_len,
        max_num_queued_reqs=given.max_num_queued_reqs,
        drain_s=given.shutdown_timeout,
    )
