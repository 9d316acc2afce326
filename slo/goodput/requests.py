"""Requests as arrays: what benchmark tools measure of each, and what an SLO made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slo.backtest.values import ARRIVALS
from slo.classify import EXCLUDED, FIRST_BAD, GOOD, INELIGIBLE, judgements_sql, reason_sql
from slo.columns import COLUMNS
from slo.model import Slo
from slo.windows import nanoseconds
from store.engine import Engine

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[Any]

MEASURED = ("http_status", "duration_ms", "ttft_ms", "tpot_ms", "completion_tokens")
"""The columns that tools measure by, beside those that an SLO names."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests that an SLO asks about. NaN is unknown; `own` is good, excluded or bad (`reason`).

    `token_times_ms` holds all requests' token times one after the other, from each request's start;
    those of request i are `token_offsets[i]` to `token_offsets[i + 1]`.
    """

    start_ns: Ints
    succeeded: Flags
    duration_ms: Floats
    ttft_ms: Floats
    tpot_ms: Floats
    tokens: Floats
    own: Texts
    reason: Texts
    token_offsets: Ints
    token_times_ms: Floats

    @property
    def count(self) -> int:
        return int(self.start_ns.size)

    def wall_s(self) -> float:
        """Measure from the first start to the last end, as a run of a benchmark is measured."""
        if not self.count:
            return 0.0
        ends = self.start_ns / 1e9 + np.nan_to_num(self.duration_ms) / 1000
        return float(ends.max() - self.start_ns.min() / 1e9)


def read_requests(
    engine: Engine,
    slo: Slo,
    table: str,
    *,
    has_token_times: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Requests:
    """Judge the requests of a table by the server's own SQL, and read what tools measure."""
    spans = [] if since is None else [f"at > {nanoseconds(since)}"]
    spans += [] if until is None else [f"at <= {nanoseconds(until)}"]
    inside = "".join(f" AND {each}" for each in spans)
    numbers = ", ".join(f"{COLUMNS[name].sql} AS n_{name}" for name in MEASURED)
    times = f", {ARRIVALS} AS times" if has_token_times else ""
    found = engine.arrow(
        f"""
SELECT at, multiIf(j.3 = {GOOD}, 'good', j.3 = {EXCLUDED}, 'excluded', 'bad') AS own,
  if(j.3 >= {FIRST_BAD}, assumeNotNull({reason_sql([slo], "j.1", "j.3")}), '') AS reason,
  ifNull(toString(outcome), '') AS outcome_text, {", ".join(f"n_{name}" for name in MEASURED)}
  {", times" if has_token_times else ""}
FROM (
  SELECT toUnixTimestamp64Nano(start) AS at, outcome, outcome_reason, {numbers}{times},
    {judgements_sql([slo])}[1] AS j
  FROM {table}
)
WHERE j.3 != {INELIGIBLE}{inside}"""
    )
    measured = {name: _numbers(found, f"n_{name}") for name in MEASURED}
    outcome, status = _texts(found, "outcome_text"), measured["http_status"]
    succeeded = (outcome == "good") | ((outcome == "") & ~(status >= 400))
    offsets, times_ms = _lists(found) if has_token_times else _no_lists(found.num_rows)
    return Requests(
        found.column("at").to_numpy().astype(np.int64),
        succeeded,
        measured["duration_ms"],
        measured["ttft_ms"],
        measured["tpot_ms"],
        measured["completion_tokens"],
        _texts(found, "own"),
        _texts(found, "reason"),
        offsets,
        times_ms,
    )


def together(parts: Sequence[Requests]) -> Requests:
    """Join requests that were read in pieces."""
    joined = {
        each.name: np.concatenate([getattr(part, each.name) for part in parts])
        for each in fields(Requests)
        if each.name != "token_offsets"
    }
    lengths = np.concatenate([np.diff(part.token_offsets) for part in parts])
    return Requests(**joined, token_offsets=np.concatenate(([0], np.cumsum(lengths))))


def _numbers(found: pa.Table, name: str) -> Floats:
    column = found.column(name).cast(pa.float64())
    return np.asarray(column.to_numpy(), np.float64)


def _texts(found: pa.Table, name: str) -> Texts:
    return np.asarray(found.column(name).cast(pa.string()).to_pylist(), dtype=object)


def _lists(found: pa.Table) -> tuple[Ints, Floats]:
    column = found.column("times")
    lengths = pc.list_value_length(column).to_numpy().astype(np.int64)
    values = pc.list_flatten(column).cast(pa.float64()).to_numpy()
    return np.concatenate(([0], np.cumsum(lengths))), np.asarray(values, np.float64)


def _no_lists(rows: int) -> tuple[Ints, Floats]:
    return np.zeros(rows + 1, np.int64), np.zeros(0)
