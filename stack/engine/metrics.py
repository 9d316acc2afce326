"""A simulated engine's `/metrics`: vLLM's names, types, labels and bucket bounds.

Totals are copied from the simulation when somebody scrapes; distributions are fed as steps and
requests complete. What the simulation has no notion of (LoRA, multimodal, sleep) stays zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from stack.engine.cache_config import cache_config
from stack.engine.scheduler import Counters
from stack.engine.sequence import Finished
from stack.engine.settings import EngineSettings

_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_LATENCY = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_TTFT = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_GAP = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)
_FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")
_SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
_TIERS = ("device", "host", "disk", "p2p", "external_unspecified")
_REJECTIONS = ("max_num_queued_reqs", "max_num_queued_tokens")
_UNTOUCHED = {
    "estimated_flops_per_gpu": "Estimated floating point operations per GPU.",
    "estimated_read_bytes_per_gpu": "Estimated bytes read from memory per GPU.",
    "estimated_write_bytes_per_gpu": "Estimated bytes written to memory per GPU.",
    "external_prefix_cache_queries": "Tokens looked up in other instances' caches.",
    "external_prefix_cache_hits": "Tokens found in other instances' caches.",
    "mm_cache_queries": "Multimodal items looked up in the cache.",
    "mm_cache_hits": "Multimodal items found in the cache.",
}


@dataclass(frozen=True, slots=True)
class AskedFor:
    """The request parameters that have histograms."""

    n: int
    max_tokens: int
    finish_reason: str


class EngineMetrics:
    """One replica's metrics, in a registry of its own."""

    def __init__(self, settings: EngineSettings) -> None:
        self.registry = CollectorRegistry()
        GCCollector(self.registry)
        PlatformCollector(self.registry)
        ProcessCollector(registry=self.registry)
        self._labels = {"engine": "0", "model_name": settings.model}
        self._seen = Counters()
        self._make_gauges(settings)
        self._make_counters()
        self._make_histograms()

    def step(self, tokens: int, times: int) -> None:
        for _ in range(times):
            self._step_tokens.observe(tokens)

    def gap(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self._token_gap.observe(seconds)

    def first_token(self, ttft_s: float) -> None:
        self._ttft.observe(ttft_s)

    def finished(self, end: Finished, arrived_at: float, asked: AskedFor) -> None:
        """Count a sequence that completed; one that was given up is counted nowhere."""
        self._success[asked.finish_reason].inc()
        self._prompt.observe(end.prompt_tokens)
        self._generation.observe(end.output_tokens)
        self._max_generation.observe(end.output_tokens)
        self._params_n.observe(asked.n)
        self._params_max_tokens.observe(asked.max_tokens)
        self._e2e.observe(end.at - arrived_at)
        self._queue.observe(end.queue_s)
        self._inference.observe(end.prefill_s + end.decode_s)
        self._prefill.observe(end.prefill_s)
        self._decode.observe(end.decode_s)
        self._preempted.observe(end.preemptions)
        self._computed.observe(end.prompt_tokens - end.cached_tokens)
        if end.output_tokens > 1:
            self._per_token.observe(end.decode_s / (end.output_tokens - 1))

    def rejected(self) -> None:
        self._rejections["max_num_queued_reqs"].inc()

    def render(self, counters: Counters) -> bytes:
        """Write the exposition text with the simulation's totals as of now."""
        self._running.set(counters.running)
        self._waiting.set(counters.waiting)
        self._waiting_capacity.set(counters.waiting)
        self._cache_usage.set(counters.cache_usage)
        grown = {
            field.name: getattr(counters, field.name) - getattr(self._seen, field.name)
            for field in fields(Counters)
        }
        self._seen = Counters(**{f.name: getattr(counters, f.name) for f in fields(Counters)})
        self._prefix_queries.inc(grown["prefix_queried_tokens"])
        self._prefix_hits.inc(grown["prefix_hit_tokens"])
        self._tiers["device"].inc(grown["prefix_hit_tokens"])
        self._prompt_total.inc(grown["prompt_tokens"])
        self._prompt_cached.inc(grown["cached_prompt_tokens"])
        self._sources["local_cache_hit"].inc(grown["cached_prompt_tokens"])
        self._sources["local_compute"].inc(grown["prompt_tokens"] - grown["cached_prompt_tokens"])
        self._generation_total.inc(grown["generated_tokens"])
        self._preemptions.inc(grown["preemptions"])
        return generate_latest(self.registry)

    def _make_gauges(self, settings: EngineSettings) -> None:
        self._running = self._gauge("num_requests_running", "Requests in execution batches.")
        self._waiting = self._gauge("num_requests_waiting", "Requests waiting to be processed.")
        self._cache_usage = self._gauge("kv_cache_usage_perc", "KV-cache usage, 1 is full.")
        reasons = self._labelled(
            Gauge, "num_requests_waiting_by_reason", "Waiting requests by reason.", "reason"
        )
        self._waiting_capacity = reasons.labels(**self._labels, reason="capacity")
        reasons.labels(**self._labels, reason="deferred")
        sleep = self._labelled(Gauge, "engine_sleep_state", "Whether it sleeps.", "sleep_state")
        for state in ("awake", "weights_offloaded", "discard_all"):
            sleep.labels(**self._labels, sleep_state=state).set(state == "awake")
        config = cache_config(settings)
        info = Gauge(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            [*config],
            registry=self.registry,
        )
        info.labels(**config).set(1)

    def _make_counters(self) -> None:
        self._prefix_queries = self._counter("prefix_cache_queries", "Tokens looked up.")
        self._prefix_hits = self._counter("prefix_cache_hits", "Tokens found in the cache.")
        self._preemptions = self._counter("num_preemptions", "Preemptions.")
        self._prompt_total = self._counter("prompt_tokens", "Prefill tokens processed.")
        self._prompt_cached = self._counter("prompt_tokens_cached", "Cached prompt tokens.")
        self._generation_total = self._counter("generation_tokens", "Tokens generated.")
        for name, text in _UNTOUCHED.items():
            self._counter(name, text)
        self._sources = self._counters(
            "prompt_tokens_by_source", "Prompt tokens by source.", "source", _SOURCES
        )
        self._tiers = self._counters(
            "prompt_tokens_cached_by_source", "Cached prompt tokens by tier.", "source", _TIERS
        )
        self._success = self._counters(
            "request_success", "Requests completed.", "finished_reason", _FINISHED_REASONS
        )
        rejections = Counter(
            "vllm:admission_rejections",
            "Admissions rejected by a queue limit.",
            ["model_name", "reason"],
            registry=self.registry,
        )
        model = self._labels["model_name"]
        self._rejections = {
            reason: rejections.labels(model_name=model, reason=reason) for reason in _REJECTIONS
        }

    def _make_histograms(self) -> None:
        make = self._histogram
        self._prompt = make("request_prompt_tokens", "Prefill tokens.", _TOKENS)
        self._generation = make("request_generation_tokens", "Generated tokens.", _TOKENS)
        self._step_tokens = make("iteration_tokens_total", "Tokens per step.", _STEP_TOKENS)
        self._max_generation = make(
            "request_max_num_generation_tokens", "Most tokens of a request's answers.", _TOKENS
        )
        self._params_n = make("request_params_n", "The parameter n.", (1, 2, 5, 10, 20))
        self._params_max_tokens = make(
            "request_params_max_tokens", "The parameter max_tokens.", _TOKENS
        )
        self._ttft = make("time_to_first_token_seconds", "Time to first token.", _TTFT)
        self._token_gap = make("inter_token_latency_seconds", "Between tokens.", _TOKEN_GAP)
        self._per_token = make(
            "request_time_per_output_token_seconds", "Per token of a request.", _TOKEN_GAP
        )
        self._e2e = make("e2e_request_latency_seconds", "Arrival to last token.", _LATENCY)
        self._queue = make("request_queue_time_seconds", "In phase WAITING.", _LATENCY)
        self._inference = make("request_inference_time_seconds", "In phase RUNNING.", _LATENCY)
        self._prefill = make("request_prefill_time_seconds", "In phase PREFILL.", _LATENCY)
        self._decode = make("request_decode_time_seconds", "In phase DECODE.", _LATENCY)
        self._preempted = make(
            "request_num_preemptions", "Preemptions of a request.", (1, 2, 3, 4, 5, 10, 20)
        )
        self._computed = make(
            "request_prefill_kv_computed_tokens", "Prompt tokens computed.", _TOKENS
        )

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(f"vllm:{name}", text, [*self._labels], registry=self.registry)
        return gauge.labels(**self._labels)

    def _labelled(self, kind: type[Gauge], name: str, text: str, label: str) -> Gauge:
        return kind(f"vllm:{name}", text, [*self._labels, label], registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        counter = Counter(f"vllm:{name}", text, [*self._labels], registry=self.registry)
        return counter.labels(**self._labels)

    def _counters(
        self, name: str, text: str, label: str, values: tuple[str, ...]
    ) -> Mapping[str, Counter]:
        counter = Counter(f"vllm:{name}", text, [*self._labels, label], registry=self.registry)
        return {value: counter.labels(**self._labels, **{label: value}) for value in values}

    def _histogram(self, name: str, text: str, bounds: tuple[float, ...]) -> Histogram:
        histogram = Histogram(
            f"vllm:{name}", text, [*self._labels], registry=self.registry, buckets=bounds
        )
        return histogram.labels(**self._labels)
