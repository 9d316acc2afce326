"""etalon's deadlines: a token is on time within what the earlier ones left over. Pure.

The first token has `ttft`, every later one `tbt` (time between tokens) since the one before. A
token that comes earlier hands what is left to the next. One that comes late misses a deadline, and
another for each `tbt` that passes until it is there, and deadlines begin anew with it. All requests
are gone through side by side, token by token, with the same operations in the same order as
`get_request_level_deadline_miss_rate` of etalon's `metrics/metric_utils.py`, so every bit agrees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slo.goodput.requests import Flags, Floats, Ints, Requests


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Of each request: deadlines missed and all. `approximated`: requests with times made up."""

    missed: Ints
    deadlines: Ints
    approximated: int


def deadlines_of(requests: Requests, ttft_ms: float, tbt_ms: float) -> Deadlines:
    """Count every request's deadlines, from its token times or else TTFT and an even pace."""
    exact = np.diff(requests.token_offsets) > 0
    first_s = requests.ttft_ms / 1000
    known = ~np.isnan(first_s)
    tokens = np.nan_to_num(requests.tokens, nan=1.0)
    paced = known & (tokens > 1) & ~np.isnan(requests.duration_ms)
    lengths = np.where(exact, np.diff(requests.token_offsets), 0)
    lengths = np.where(~exact & known, np.where(paced, tokens, 1).astype(np.int64), lengths)
    with np.errstate(invalid="ignore", divide="ignore"):
        pace_s = (requests.duration_ms / 1000 - first_s) / (tokens - 1)
    gaps = _Gaps(
        exact, requests.token_offsets[:-1], _gaps_s(requests), first_s, np.nan_to_num(pace_s)
    )
    missed, deadlines = _count(gaps, lengths, ttft_ms / 1000, tbt_ms / 1000)
    return Deadlines(missed, deadlines, int((known & ~exact).sum()))


@dataclass(frozen=True, slots=True)
class _Gaps:
    """The time that each token took: of some requests as it was, of others as it is thought."""

    exact: Flags
    offsets: Ints
    gaps_s: Floats
    first_s: Floats
    pace_s: Floats

    def of(self, token: int, rows: Ints) -> Floats:
        made = (self.first_s if token == 0 else self.pace_s)[rows]
        if not self.gaps_s.size:
            return made
        at = np.minimum(self.offsets[rows] + token, self.gaps_s.size - 1)
        return np.where(self.exact[rows], self.gaps_s[at], made)


def _gaps_s(requests: Requests) -> Floats:
    """Turn times since each request's start into times since the token before."""
    times = requests.token_times_ms / 1000
    gaps = np.diff(times, prepend=0.0)
    firsts = requests.token_offsets[:-1][np.diff(requests.token_offsets) > 0]
    gaps[firsts] = times[firsts]
    return gaps


def _count(gaps: _Gaps, lengths: Ints, ttft: float, tbt: float) -> tuple[Ints, Ints]:
    longest_first = np.argsort(-lengths, kind="stable")
    sorted_lengths = lengths[longest_first]
    missed, total = (np.zeros(lengths.size, np.int64) for _ in range(2))
    slack = np.zeros(lengths.size)
    for token in range(int(sorted_lengths[0]) if lengths.size else 0):
        rows = longest_first[: int(np.searchsorted(-sorted_lengths, -token))]
        gap, left = gaps.of(token, rows), slack[rows]
        limit = ttft if token == 0 else tbt
        on_time = gap <= limit + left
        overdue = 1 + (gap - left - ttft) // tbt if token == 0 else (gap - left) // tbt
        late = np.where(on_time, 0, overdue).astype(np.int64)
        missed[rows] += late
        total[rows] += np.where(on_time, 1, late)
        slack[rows] = np.where(on_time, left + (limit - gap), 0.0)
    return missed, total
