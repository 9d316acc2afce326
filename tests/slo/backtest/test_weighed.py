"""Weights and sums of a backtest equal what pandas adds up, window by window."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.backtest.greatest import Greatest
from slo.guard import Behind
from slo.model import Slo
from store.engine import Engine
from tests.slo.backtest.test_counts import HOUR, history_of, made
from tests.slo.made_slos import read_slos

GROUPED = {"group_by": ["tenant"]}
TOKENS, CHAT, QUICK, SUM = read_slos(
    [
        {"name": "tokens", "good": "ttft_ms <= 2000", "eligible": "model = 'm'"}
        | {"weight": "3 * prompt_tokens + completion_tokens"}
        | GROUPED,
        {"name": "chat", "eligible": "route = '/chat'"},
        {"name": "quick", "good": "ttft_ms <= 2000"},
        {"name": "sum", "composite": {"sum": {"chat": 5, "quick": 2}}} | GROUPED,
    ]
)
SLOS = [TOKENS, CHAT, QUICK, SUM]


def weighed(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Weigh what is good, bad and excluded of every request; n: judged, nb: partly bad."""
    is_quick, is_left_out = frame.ttft_ms <= 2000, frame.outcome == "excluded"
    tokens = (3 * frame.prompt_tokens + frame.completion_tokens).fillna(0)
    parts = {
        "tokens": [(frame.model == "m", is_quick, tokens)],
        "sum": [(frame.route == "/chat", frame.outcome == "good", 5), (True, is_quick, 2)],
    }
    found = {}
    for name, asked in parts.items():
        sums = {what: pd.Series(0, frame.index) for what in ("good", "bad", "excluded", "n", "nb")}
        for is_asked, is_good, weight in asked:
            is_judged = is_asked & ~is_left_out
            sums["good"] += (is_judged & is_good) * weight
            sums["bad"] += (is_judged & ~is_good) * weight
            sums["excluded"] += (is_asked & is_left_out) * weight
            sums["n"] |= is_judged
            sums["nb"] |= is_judged & ~is_good
        found[name] = pd.DataFrame(sums).astype(np.int64)
        found[name]["start"], found[name]["tenant"] = frame.start, frame.tenant.fillna("")
    return found


@pytest.mark.parametrize("slo", [TOKENS, SUM])
def test_every_window_equals_what_pandas_adds_up(engine: Engine, tmp_path: Path, slo: Slo) -> None:
    frame = made(11, 700)
    frame.sample(frac=1, random_state=1).to_parquet(tmp_path / "facts.parquet")
    expected = weighed(frame)[slo.name]

    history = history_of(engine, [tmp_path / "facts.parquet"], SLOS)

    for length in (timedelta(seconds=30), timedelta(minutes=5), HOUR):
        for evaluation in range(history.span.first, history.span.end, 97):
            now = history.grid.at(evaluation).timestamp()
            is_inside = (expected.start > now - length.total_seconds()) & (expected.start <= now)
            for (tenant,) in history.groups(slo):
                mine = expected[is_inside & (expected.tenant == tenant)]
                count, excluded = history.count(slo, (tenant,), length, evaluation)
                assert (count.good, count.bad, excluded) == (
                    mine.good.sum(), mine.bad.sum(), mine.excluded.sum(),
                )  # fmt: skip
                cells = history.of(slo, (tenant,))
                assert cells is not None
                ends = np.array([evaluation * history.grid.every])
                (tally,) = cells.tallies(ends, [history.grid.cells(length)])
                weights = mine.good + mine.bad
                heaviest = weights.max() if len(mine) else 0
                assert as_numbers(tally.behind) == (
                    mine.n.sum(), mine.nb.sum(), heaviest, (weights**2).sum(),
                )  # fmt: skip


def as_numbers(behind: Behind | None) -> tuple[float, ...]:
    assert behind is not None
    parts = (behind.requests, behind.bad_requests, behind.heaviest, behind.squares)
    return tuple(float(each[0]) for each in parts)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=70), st.data())
def test_the_greatest_of_a_stretch_is_its_greatest(values: list[int], data: st.DataObject) -> None:
    place = st.integers(0, len(values))
    stretches = data.draw(st.lists(st.tuples(place, place).map(sorted), min_size=1, max_size=9))
    starts, ends = np.array(stretches).T
    greatest = Greatest(np.array(values))

    found = greatest.between(starts, ends).tolist()
    greatest.forget()

    assert found == [max(values[start:end], default=0) for start, end in stretches]
    assert greatest.between(starts, ends).tolist() == found
