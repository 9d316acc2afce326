"""Read models of the pages: small frames made by SQL from rollups, never raw rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pandas as pd

from cost.read import Window
from dashboards.reader import Reader
from dashboards.rollups import Plan, plan
from dashboards.state import ViewState
from store.engine import Engine

QUANTILES = (0.5, 0.95, 0.99)
BUCKETS_PER_OCTAVE = 8  # of the store's log histograms
_FILTERS = ("tenant", "route", "model")
_NAMES_KEPT = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went through in each step.

    `frame` is indexed by the step's start, with `good`, `bad`, `excluded` (requests/s),
    `tokens` (completion tokens/s) and `ttft_p50`, `ttft_p95`, `ttft_p99` (ms). A step in which
    no source was heard has no rate (NaN in the frame, a gap on the chart), not zero.
    """

    frame: pd.DataFrame
    step: timedelta
    totals: Totals


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the window; a quantile without a single measurement is None."""

    good: int
    bad: int
    excluded: int
    prompt_tokens: int
    completion_tokens: int
    unknown_usage: int
    ttft_p50_ms: float | None
    ttft_p95_ms: float | None
    ttft_p99_ms: float | None

    @property
    def requests(self) -> int:
        return self.good + self.bad + self.excluded

    @property
    def good_share(self) -> float | None:
        judged = self.good + self.bad
        return self.good / judged if judged else None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A process that says every few seconds that it is alive, and when it last did."""

    role: str
    name: str
    last: datetime


def read_heartbeats(engine: Engine, now: datetime) -> list[Heartbeat]:
    """List the processes that beat in the last day; others are silent when they are idle."""
    rows = engine.rows(_BEATS, {"from": now - timedelta(days=1), "to": now})
    return [Heartbeat(row["role"], row["name"], row["last"]) for row in rows]


def read_newest(engine: Engine, now: datetime) -> datetime | None:
    """Say when any source was last heard; None: never."""
    found = engine.rows(_NEWEST, {"now": now})[0]
    newest: datetime | None = found["newest"] if found["heard"] else None
    return newest


def read_traffic(
    engine: Engine, window: Window, filters: Mapping[str, str], now: datetime
) -> Traffic:
    """Read rates and latency quantiles of a window from the rollup that fits it."""
    chosen = plan(window, now)
    params = _params(chosen, filters)
    rows = engine.rows(_TRAFFIC.format(table=chosen.table, where=_where(filters)), params)
    heard = {row["step"] for row in engine.rows(_HEARD, params)}
    return Traffic(_frame(rows, heard, chosen, now), chosen.step, _totals(rows))


def read_names(reader: Reader, state: ViewState) -> dict[str, list[str]]:
    """List the tenants, routes and models seen in a page's window, for the filters' menus."""
    window = state.window(reader.deps.clock.now())
    params = {"from": window.start, "to": window.end}
    found: Mapping[str, list[str]] = reader.memo.get(
        ("names", state.range, state.start, state.end),
        _NAMES_KEPT,
        lambda: reader.deps.engine.rows(_NAMES, params)[0],
    )
    return {name: sorted(value for value in found[name] if value) for name in _FILTERS}


def quantile(hist: Mapping[int, int], q: float) -> float | None:
    """Read a quantile off a log histogram, in the middle (in log terms) of its bucket."""
    total = sum(hist.values())
    if not total:
        return None
    rank, below = q * total, 0
    for bucket in sorted(hist):
        below += hist[bucket]
        if below >= rank:
            return float(2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE))
    return None


def _frame(
    rows: Sequence[Mapping[str, Any]], heard: set[int], chosen: Plan, now: datetime
) -> pd.DataFrame:
    by_step = {row["step"]: row for row in rows}
    first, last = int(chosen.start.timestamp()), int(chosen.end.timestamp())
    out = []
    for start in range(first, max(last, first + 1), chosen.step_s):
        row = by_step.get(start)
        # The newest step is not over yet: its rate is over the part that has passed.
        covered = min(start + chosen.step_s, last, int(now.timestamp())) - start
        out.append(_point(row, start, max(covered, 1), is_heard=start in heard))
    frame = pd.DataFrame(out, columns=["at", *_POINT])
    return frame.set_index(pd.to_datetime(frame.pop("at"), unit="s", utc=True))


_POINT = ("good", "bad", "excluded", "tokens", "ttft_p50", "ttft_p95", "ttft_p99")


def _point(
    row: Mapping[str, Any] | None, start: int, covered_s: int, *, is_heard: bool
) -> tuple[float | None, ...]:
    if row is None:
        silence = 0.0 if is_heard else None
        return (start, silence, silence, silence, silence, None, None, None)
    rates = (row[name] / covered_s for name in ("good", "bad", "excluded", "completion"))
    return (start, *rates, *(quantile(row["ttft"], q) for q in QUANTILES))


def _totals(rows: Sequence[Mapping[str, Any]]) -> Totals:
    hist: dict[int, int] = {}
    for row in rows:
        for bucket, n in row["ttft"].items():
            hist[bucket] = hist.get(bucket, 0) + n
    p50, p95, p99 = (quantile(hist, q) for q in QUANTILES)
    return Totals(
        good=sum(r["good"] for r in rows),
        bad=sum(r["bad"] for r in rows),
        excluded=sum(r["excluded"] for r in rows),
        prompt_tokens=sum(r["prompt"] for r in rows),
        completion_tokens=sum(r["completion"] for r in rows),
        unknown_usage=sum(r["unknown"] for r in rows),
        ttft_p50_ms=p50,
        ttft_p95_ms=p95,
        ttft_p99_ms=p99,
    )


def _where(filters: Mapping[str, str]) -> str:
    return "".join(f" AND {name} = {{f_{name}:String}}" for name in _FILTERS if name in filters)


def _params(chosen: Plan, filters: Mapping[str, str]) -> dict[str, Any]:
    named = {f"f_{name}": filters[name] for name in _FILTERS if name in filters}
    return {"from": chosen.start, "to": chosen.end, "step": chosen.step_s, **named}


_TRAFFIC = """
SELECT toInt64(intDiv(toUInt32(bucket), {{step:UInt32}}) * {{step:UInt32}}) AS step,
  toInt64(sumIf(requests, outcome = 'good')) AS good,
  toInt64(sumIf(requests, outcome = 'bad')) AS bad,
  toInt64(sumIf(requests, outcome = 'excluded')) AS excluded,
  toInt64(sum(prompt_tokens)) AS prompt, toInt64(sum(completion_tokens)) AS completion,
  toInt64(sum(unknown_usage)) AS unknown, sumMap(ttft_hist) AS ttft
FROM {table} FINAL
WHERE bucket >= {{from:DateTime64(6, 'UTC')}} AND bucket < {{to:DateTime64(6, 'UTC')}}{where}
GROUP BY step ORDER BY step
"""

_HEARD = """
SELECT DISTINCT toInt64(intDiv(at, {step:UInt32}) * {step:UInt32}) AS step
FROM (
  -- A minute that was heard covers every shorter step in it.
  SELECT arrayJoin(range(toUInt32(minute), toUInt32(minute) + 60, least({step:UInt32}, 60))) AS at
  FROM source_minutes
  WHERE minute >= toStartOfMinute({from:DateTime64(6, 'UTC')})
    AND minute < {to:DateTime64(6, 'UTC')}
)
"""

_NEWEST = """
SELECT count() AS heard, max(least(last, {now:DateTime64(9, 'UTC')})) AS newest
FROM (
  -- In the table's order from its end: a month of minutes is not read for its last one.
  SELECT last FROM source_minutes
  WHERE minute <= toDateTime({now:DateTime64(9, 'UTC')}, 'UTC')
    AND first <= {now:DateTime64(9, 'UTC')}
  ORDER BY minute DESC LIMIT 1000
)
"""

_BEATS = """
SELECT role, if(instance = '', service, instance) AS name, max(end) AS last FROM alive
WHERE start >= {from:DateTime64(6, 'UTC')} AND start <= {to:DateTime64(6, 'UTC')}
GROUP BY role, name ORDER BY role, name
"""

_NAMES = """
SELECT groupUniqArray(200)(tenant) AS tenant, groupUniqArray(200)(route) AS route,
  groupUniqArray(200)(model) AS model
FROM rollup_1h
WHERE bucket >= toStartOfHour({from:DateTime64(6, 'UTC')}) AND bucket < {to:DateTime64(6, 'UTC')}
"""
