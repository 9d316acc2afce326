"""Exact windows out of buckets. Pure.

A window is (now - length, now] on a request's start, or [now - length, now) of slices. It is cut
into whole hours, whole minutes and whole ten seconds, which are read from the count tables, and the
ragged rest, read from facts; no request is counted twice or missed, whatever `now` is. All windows
end at `now`, so they are cut together: what lies between two window starts is cut once. Where an
exclusion begins or ends is an edge too, so that a bucket is wholly within it or wholly outside.

Times here are integers, nanoseconds since the epoch, and spans are half-open [start, end).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from slo.completeness import Complete
from slo.schema import TABLES

NS = 1_000_000_000
FACTS = timedelta(0)
"""Stands for the facts themselves among the bucket sizes."""

Span = tuple[int, int]

_COARSEST_FIRST = tuple(sorted(TABLES, reverse=True))
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Cut:
    """`starts` of rolling windows by length, and the spans to read from each table.

    Spans of `FACTS` are read from facts.
    """

    end: int
    starts: Mapping[timedelta, int]
    spans: Mapping[timedelta, tuple[Span, ...]]


def cut(
    now: datetime,
    lengths: Iterable[timedelta],
    complete: Mapping[timedelta, Complete],
    *,
    since: Iterable[datetime] = (),
    edges: Iterable[int] = (),
    is_closed: bool = True,
) -> Cut:
    """Cut windows of these lengths, and from each instant of `since`, that end at `now`.

    Those that are not closed leave out what began at `now`, and take in what began as they did.

    `complete` says what may be read from each table; the rest is read from facts. No bucket is
    read across one of `edges`.
    """
    end = nanoseconds(now) + is_closed  # a span is open at its end
    starts = {length: end - length // _MICROSECOND * 1000 for length in lengths}
    begins = {*starts.values(), *(nanoseconds(moment) for moment in since)}
    inner = {edge for edge in edges if min(begins) < edge < end}
    points = [*sorted(at for at in begins | inner if at < end), end]
    spans: dict[timedelta, list[Span]] = {FACTS: [], **{step: [] for step in TABLES}}
    for start, stop in pairwise(points):
        _cut(start, stop, _COARSEST_FIRST, complete, spans)
    return Cut(end, starts, {step: _joined(found) for step, found in spans.items()})


def cut_span(
    start: int,
    end: int,
    coarsest: timedelta,
    complete: Mapping[timedelta, Complete],
    edges: Iterable[int] = (),
) -> dict[timedelta, tuple[Span, ...]]:
    """Cut one span of whole ten seconds, reading no table coarser than `coarsest`."""
    spans: dict[timedelta, list[Span]] = {FACTS: [], **{step: [] for step in TABLES}}
    steps = tuple(step for step in _COARSEST_FIRST if step <= coarsest)
    inner = sorted({edge for edge in edges if start < edge < end})
    for first, last in pairwise((start, *inner, end)):
        _cut(first, last, steps, complete, spans)
    return {step: _joined(found) for step, found in spans.items()}


def nanoseconds(moment: datetime) -> int:
    """Count nanoseconds since the epoch without a detour through a float."""
    return (moment - _EPOCH) // _MICROSECOND * 1000


def instant(at: int) -> str:
    """Write nanoseconds since the epoch as the engine's type of `facts.start`."""
    return f"fromUnixTimestamp64Nano(toInt64({at}), 'UTC')"


def _cut(
    start: int,
    end: int,
    steps: Sequence[timedelta],
    complete: Mapping[timedelta, Complete],
    out: dict[timedelta, list[Span]],
) -> None:
    """Put the whole buckets of the coarsest step in `out` and cut what is left by finer ones."""
    if start >= end:
        return
    if not steps:
        out[FACTS].append((start, end))
        return
    step, finer = steps[0], steps[1:]
    size = round(step.total_seconds()) * NS
    first = max(-(-start // size) * size, complete[step].floor * NS)
    last = min(end // size * size, complete[step].until * NS)
    if first >= last:
        _cut(start, end, finer, complete, out)
        return
    _cut(start, first, finer, complete, out)
    out[step].append((first, last))
    _cut(last, end, finer, complete, out)


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join spans that touch."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return tuple(out)
