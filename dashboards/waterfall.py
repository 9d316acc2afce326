"""A trace as bars on one time axis. Pure: where each bar and band goes, in percent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.traces import Span, Trace

SHOWN = 500
_BANDS = (("queue", "queue_ms"), ("prefill", "prefill_ms"), ("decode", "decode_ms"))


@dataclass(frozen=True, slots=True)
class Band:
    """A part of a bar, in percent of the bar."""

    name: str
    left: float
    width: float
    ms: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One span's row. `left` and `width` are percent of the trace; `first_token` of the bar."""

    span: Span
    left: float
    width: float
    bands: tuple[Band, ...]
    first_token: float | None
    is_early: bool  # begins before its parent: clocks differ


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Bars in tree order; `hidden` spans are not drawn."""

    bars: tuple[Bar, ...]
    total_ms: float
    ticks: tuple[float, ...]  # ms
    hidden: int


def lay_out(trace: Trace) -> Waterfall:
    """Place the first spans of a trace on the axis of the whole trace."""
    first = min(span.start_ns for span in trace.spans)
    last = max(span.end_ns for span in trace.spans)
    total = max(last - first, 1)
    starts = {span.id: span.start_ns for span in trace.spans}
    bars = tuple(_bar(span, first, total, starts) for span in trace.spans[:SHOWN])
    return Waterfall(bars, total / 1e6, tuple(ticks(total / 1e6)), max(0, len(trace.spans) - SHOWN))


def ticks(total_ms: float) -> Sequence[float]:
    """Pick four to eight round times for the axis."""
    step = 10.0 ** len(str(int(total_ms))) / 1000
    while total_ms / step > 8:
        step *= 2 if str(step).lstrip("0.")[0] in "15" else 2.5
    return [step * i for i in range(int(total_ms / step) + 1)]


def _bar(span: Span, first: int, total: int, starts: dict[str, int]) -> Bar:
    length = span.end_ns - span.start_ns
    parent = starts.get(span.parent or "")
    return Bar(
        span=span,
        left=(span.start_ns - first) / total * 100,
        width=max(length, 0) / total * 100,
        bands=_bands(span, length / 1e6),
        first_token=_first_token(span, length / 1e6),
        is_early=parent is not None and span.start_ns < parent,
    )


def _bands(span: Span, length_ms: float) -> tuple[Band, ...]:
    """Lay queue, prefill and decode end to end from the bar's start, within the bar."""
    if span.layer != "engine" or length_ms <= 0:
        return ()
    out: list[Band] = []
    at = 0.0
    for name, field in _BANDS:
        ms = span.bands[field]
        if ms is None or ms <= 0 or at >= length_ms:
            continue
        width = min(ms, length_ms - at)
        out.append(Band(name, at / length_ms * 100, width / length_ms * 100, ms))
        at += ms
    return tuple(out)


def _first_token(span: Span, length_ms: float) -> float | None:
    ttft = span.bands["ttft_ms"]
    if ttft is None or length_ms <= 0 or ttft > length_ms:
        return None
    return ttft / length_ms * 100
