"""What a benchmark tool would print of some requests, request by request. Pure.

Sources of the formulas: vLLM `vllm/benchmarks/serve.py` (`calculate_metrics`), AIPerf
`metrics/types/{good_request_count,goodput,inter_token_latency}_metric.py`, DistServe
`evaluation/2-benchmark-serving/structs.py` and `ae-scripts/e2e/_plot.py` (`get_attainment`),
etalon `metrics/metric_utils.py` (in `slo.goodput.deadlines`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from base.errors import BadInput
from slo.backtest.values import ARRIVALS
from slo.goodput.deadlines import deadlines_of
from slo.goodput.limits import Limits
from slo.goodput.requests import Flags, Floats, Requests

GOOD, MISSED, DROPPED = 1, 0, -1
MISS_RATE = 0.1
"""etalon's TARGET_DEADLINE_MISS_RATE: a request may miss one deadline in ten."""
_PERCENTILE = 0.99
_ATTAINMENT = 0.9


class Mode(StrEnum):
    VLLM = "vllm"
    AIPERF = "aiperf"
    ETALON = "etalon"
    DISTSERVE = "distserve"


@dataclass(frozen=True, slots=True)
class Figure:
    """`verdict` of each request: GOOD, MISSED, or DROPPED, which the tool's figure leaves out.

    `figures` are named as the tool names them, None where it prints none.
    """

    mode: Mode
    good: int
    counted: int
    dropped: Mapping[str, int]
    seconds: float
    figures: Mapping[str, float | None]
    verdict: npt.NDArray[np.int8]
    notes: tuple[str, ...] = field(default=())

    @property
    def per_s(self) -> float | None:
        return self.good / self.seconds if self.seconds > 0 else None

    @property
    def share(self) -> float | None:
        return self.good / self.counted if self.counted else None


def check_limits(mode: Mode, limits: Limits) -> None:
    """Refuse limits that a tool could not work with."""
    if mode is Mode.ETALON and (limits.ttft is None or limits.tpot is None):
        raise BadInput("etalon gives every token a deadline: limit both ttft and tpot (its tbt)")
    if mode is Mode.DISTSERVE and limits.ttft is None and limits.tpot is None:
        raise BadInput("DistServe knows TTFT and TPOT alone: limit ttft or tpot")


def figure(mode: Mode, requests: Requests, limits: Limits) -> Figure:
    """Judge requests as a tool does; BadInput if it needs other limits."""
    check_limits(mode, limits)
    if not requests.count:
        raise BadInput("there is no request that is asked about: nothing can be said")
    return _TOOLS[mode](requests, limits)


def _vllm(requests: Requests, limits: Limits) -> Figure:
    ttft_ms = np.nan_to_num(requests.ttft_ms)
    measured = {
        "ttft": ttft_ms / 1000,
        "tpot": np.nan_to_num(_tpot_s(requests, ttft_ms)),
        "e2el": requests.duration_ms / 1000,
    }
    kept = requests.succeeded & _measured(requests, limits)
    good = kept.copy()
    for name, limit in limits.items():
        good &= measured[name] <= limit / 1000
    wall = requests.wall_s()
    counted = int(kept.sum())
    return Figure(
        Mode.VLLM, int(good.sum()), counted, _dropped(requests, limits), wall,
        {
            "request_goodput": _rate(good.sum(), wall),
            "request_throughput": _rate(counted, wall),
            "completed": counted,
            "failed": int((~requests.succeeded).sum()),
        },
        _verdict(good, kept),
        (
            "Requests that failed are in neither figure: vLLM prints a rate, and no share.",
            "TPOT of an answer of one token counts as 0, and so does a TTFT that is not known.",
        ),
    )  # fmt: skip


def _aiperf(requests: Requests, limits: Limits) -> Figure:
    ttft, latency = (np.rint(each * 1e6) for each in (requests.ttft_ms, requests.duration_ms))
    with np.errstate(invalid="ignore", divide="ignore"):
        itl = np.where(requests.tokens >= 2, (latency - ttft) / (requests.tokens - 1), np.nan)
    itl = np.where(np.isnan(itl), requests.tpot_ms * 1e6, itl)
    measured = {"ttft": ttft, "tpot": itl, "e2el": latency}
    kept = requests.succeeded
    good = kept.copy()
    for name, limit in limits.items():
        good &= measured[name] <= limit * 1e6  # NaN, which has no value, is not
    starts, ends = requests.start_ns[kept], (requests.start_ns + np.nan_to_num(latency))[kept]
    seconds = float(ends.max() - starts.min()) / 1e9 if kept.any() else 0.0
    counted, attempts = int(kept.sum()), requests.count
    return Figure(
        Mode.AIPERF, int(good.sum()), counted, _failed(requests), seconds,
        {
            "goodput": _rate(good.sum(), seconds),
            "good_request_count": int(good.sum()),
            "good_request_fraction": int(good.sum()) / attempts,
            "request_count": counted,
            "error_request_count": attempts - counted,
        },
        _verdict(good, kept),
        (
            "Requests that failed are not in goodput; good_request_fraction counts them as bad.",
            "What has no value is a miss: TPOT of one token, TTFT of what was not streamed.",
            "The run lasts from the first start to the last end of requests that succeeded.",
        ),
    )  # fmt: skip


def _distserve(requests: Requests, limits: Limits) -> Figure:
    tokens = requests.tokens
    kept = requests.succeeded & ~np.isnan(requests.ttft_ms) & (tokens >= 1)
    kept &= ~np.isnan(requests.duration_ms) | (tokens == 1)
    tpot_s = np.where(tokens == 1, 0.0, _tpot_s(requests, requests.ttft_ms))
    good = kept.copy()
    for name, value in (("ttft", requests.ttft_ms / 1000), ("tpot", tpot_s)):
        limit = getattr(limits, name)
        if limit is not None:
            good &= value <= limit / 1000
    counted, wall = int(kept.sum()), requests.wall_s()
    attainment = good.sum() / counted if counted else None
    dropped = _failed(requests) | _nonzero(
        {"without TTFT or token count": int((requests.succeeded & ~kept).sum())}
    )
    notes = [
        "DistServe sends a failed request again until it succeeds: failures are not in it.",
        "Its capacity is the highest rate at which attainment is 90 %: one history shows one rate.",
    ]
    if limits.e2el is not None:
        notes.append("It has no limit on the whole answer: e2el is not looked at.")
    return Figure(
        Mode.DISTSERVE, int(good.sum()), counted, dropped, wall,
        {
            "slo_attainment": None if attainment is None else float(attainment),
            "attains_90_percent": None if attainment is None else float(attainment >= _ATTAINMENT),
            "requests_per_s": _rate(counted, wall),
        },
        _verdict(good, kept),
        tuple(notes),
    )  # fmt: skip


def _etalon(requests: Requests, limits: Limits) -> Figure:
    assert limits.ttft is not None and limits.tpot is not None  # noqa: S101, PT018  was checked
    found = deadlines_of(requests, limits.ttft, limits.tpot)
    rates = found.missed / np.maximum(found.deadlines, 1)
    good = rates <= MISS_RATE
    missed, deadlines = int(found.missed.sum()), int(found.deadlines.sum())
    p99 = float(np.quantile(rates, _PERCENTILE))
    wall = requests.wall_s()
    notes = [
        "Every request counts, also one that failed: without a token it missed no deadline.",
        f"Good: at most {MISS_RATE:.0%} of deadlines missed; etalon asks it of the p99 request.",
        "A token that is early gives its time to the next ones; after a miss deadlines begin anew.",
        "The TTFT limit is one for all: etalon's own capacity search predicts one for each prompt.",
    ]
    if found.approximated:
        notes.append(
            f"{found.approximated:,} of {requests.count:,} requests have no {ARRIVALS}: their "
            "first token is taken at TTFT and the others evenly spaced until the end, which "
            "hides stalls and single late tokens."
        )
    if limits.e2el is not None:
        notes.append("It has no limit on the whole answer: e2el is not looked at.")
    return Figure(
        Mode.ETALON, int(good.sum()), requests.count, {}, wall,
        {
            "deadline_miss_rate": missed / deadlines if deadlines else 0.0,
            "tokens_on_time": 1 - missed / deadlines if deadlines else None,
            "missed_deadlines": missed,
            "total_deadlines": deadlines,
            "p99_request_miss_rate": p99,
            "is_under_sla": float(p99 <= MISS_RATE),
            "error_rate": float((~requests.succeeded).sum()) / requests.count,
        },
        _verdict(good, np.ones(requests.count, bool)),
        tuple(notes),
    )  # fmt: skip


_TOOLS: Mapping[Mode, Callable[[Requests, Limits], Figure]] = {
    Mode.VLLM: _vllm,
    Mode.AIPERF: _aiperf,
    Mode.ETALON: _etalon,
    Mode.DISTSERVE: _distserve,
}


def _tpot_s(requests: Requests, ttft_ms: Floats) -> Floats:
    """Compute (end - first token) / (tokens - 1); NaN for one token and what is unknown.

    In seconds, as the tools do: the last bit decides what is exactly on a limit.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        decode_s = requests.duration_ms / 1000 - ttft_ms / 1000
        computed = np.where(requests.tokens > 1, decode_s / (requests.tokens - 1), np.nan)
    instead = np.isnan(computed) & ~(requests.tokens <= 1)
    return np.where(instead, requests.tpot_ms / 1000, computed)


def _measured(requests: Requests, limits: Limits) -> Flags:
    """Say of which requests the tool could have measured what is limited."""
    if limits.e2el is None:
        return np.ones(requests.count, bool)
    return ~np.isnan(requests.duration_ms)


def _failed(requests: Requests) -> dict[str, int]:
    return _nonzero({"failed": int((~requests.succeeded).sum())})


def _dropped(requests: Requests, limits: Limits) -> dict[str, int]:
    unmeasured = requests.succeeded & ~_measured(requests, limits)
    return _failed(requests) | _nonzero({"without a duration": int(unmeasured.sum())})


def _nonzero(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _verdict(good: Flags, kept: Flags) -> npt.NDArray[np.int8]:
    return np.where(kept, np.where(good, GOOD, MISSED), DROPPED).astype(np.int8)


def _rate(count: int, seconds: float) -> float | None:
    return float(count / seconds) if seconds > 0 else None
