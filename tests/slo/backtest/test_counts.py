"""What a backtest counts is what a recount of the rows says, one request at a time."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.errors import BadInput
from slo.backtest.cells import Gathered, grid_of
from slo.backtest.facts_file import Reading, read_facts
from slo.backtest.history import History, grid_for, make_history
from slo.backtest.scratch import Scratch, columns_named, columns_read, judge_batches
from slo.interpret import evaluate, holds
from slo.model import Slo
from slo.parse import parse_clauses, parse_filter
from slo.tiers import derive
from store.engine import Engine

HOUR = timedelta(hours=1)
EVERY = timedelta(seconds=5)
BEGIN = 1_767_225_600

SLOS = (
    Slo(
        "ttft", 0.9, HOUR, parse_clauses("outcome = 'good' and ttft_ms <= 2000"),
        derive(0.9, HOUR), parse_filter("route = '/chat' or route is null"), ("tenant",),
    ),
    Slo("cheap", 0.95, HOUR, parse_clauses("reported_cost_usd < 0.5"), derive(0.95, HOUR)),
    Slo(
        "long", 0.9, HOUR, parse_clauses("completion_tokens / prompt_tokens < 2"), (),
        parse_filter("not (model = 'm')"), ("tenant", "model"),
    ),
)  # fmt: skip


def made(seed: int, count: int, seconds: int = 5400) -> pd.DataFrame:
    dice = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.1 else value

    def begun() -> float:
        """Half of them on whole seconds, where windows have their edges."""
        milliseconds = dice.randrange(seconds * 1000)
        return milliseconds // 1000 if dice.random() < 0.5 else milliseconds / 1000

    rows = [
        {
            "start": BEGIN + begun(),
            "tenant": dice.choice(["acme", "beta", None]),
            "route": maybe(dice.choice(["/chat", "/embed"])),
            "model": maybe(dice.choice(["m", "n"])),
            "outcome": maybe(dice.choice(["good", "good", "bad", "excluded"])),
            "ttft_ms": maybe(dice.choice([100.0, 2000.0, 2000.5])),
            "prompt_tokens": maybe(dice.randrange(3)),
            "completion_tokens": maybe(dice.randrange(5)),
            "cost_usd": maybe(dice.random()),
        }
        for _ in range(count)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def recounted(slo: Slo, rows: Iterable[dict[str, Any]]) -> dict[tuple[str, ...], list[int]]:
    """Count good, bad and excluded, and the bad ones since the last good one."""
    found: dict[tuple[str, ...], list[int]] = {}
    ordered = sorted(rows, key=lambda row: (row["start"], _is_good(slo, row)))
    for row in ordered:
        if slo.eligible is not None and not holds(slo.eligible, row):
            continue
        group = tuple("" if pd.isna(row[name]) else row[name] for name in slo.group_by)
        tally = found.setdefault(group, [0, 0, 0, 0])
        if row["outcome"] == "excluded":
            tally[2] += 1
        elif _is_good(slo, row):
            tally[0] += 1
            tally[3] = 0
        else:
            tally[1] += 1
            tally[3] += 1
    return found


def _is_good(slo: Slo, row: dict[str, Any]) -> bool:
    return row["outcome"] != "excluded" and all(
        evaluate(clause.expression, row) is True for clause in slo.good
    )


def judged(engine: Engine, paths: Sequence[Path], slos: Sequence[Slo] = SLOS) -> Gathered:
    columns = columns_read(slos)
    with Scratch(engine, columns) as scratch:
        batches = read_facts(paths, columns, Reading(), columns_named(slos))
        return judge_batches(scratch, engine, slos, batches)


def history_of(engine: Engine, paths: Sequence[Path], slos: Sequence[Slo] = SLOS) -> History:
    found = make_history(judged(engine, paths, slos), grid_for(slos, EVERY))
    assert found is not None
    return found


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_every_window_at_every_instant_equals_a_recount(
    engine: Engine, tmp_path: Path, suffix: str
) -> None:
    frame = made(1, 900)
    path = tmp_path / f"facts.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    rows = frame.rename(columns={"cost_usd": "reported_cost_usd"}).to_dict("records")

    history = history_of(engine, [path])

    for slo in SLOS:
        for length in (timedelta(seconds=30), timedelta(minutes=5), HOUR):
            for evaluation in range(history.span.first, history.span.end, 97):
                now = history.grid.at(evaluation).timestamp()
                inside = [r for r in rows if now - length.total_seconds() < r["start"] <= now]
                expected = recounted(slo, inside)
                for group in history.groups(slo):
                    count, excluded = history.count(slo, group, length, evaluation)
                    good, bad, left_out, _ = expected.get(group, [0, 0, 0, 0])
                    assert (count.good, count.bad, excluded) == (good, bad, left_out)


def test_a_run_of_failures_is_counted_in_the_order_of_starts(
    engine: Engine, tmp_path: Path
) -> None:
    frame = made(2, 400, seconds=1200)
    frame.to_parquet(tmp_path / "facts.parquet")
    rows = frame.rename(columns={"cost_usd": "reported_cost_usd"}).to_dict("records")

    history = history_of(engine, [tmp_path / "facts.parquet"])

    slo = SLOS[0]
    for evaluation in range(history.span.first, history.span.end, 7):
        now = history.grid.at(evaluation).timestamp()
        expected = recounted(slo, [r for r in rows if r["start"] <= now])
        for group in history.groups(slo):
            cells = history.of(slo, group)
            assert cells is not None
            run = cells.run_at(np.array([evaluation * history.grid.every]))
            assert run.tolist() == [expected.get(group, [0, 0, 0, 0])[3]]


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10_000), parts=st.integers(2, 6))
def test_requests_in_files_of_any_number_and_order_count_the_same(
    engine: Engine, tmp_path: Path, seed: int, parts: int
) -> None:
    frame = made(seed, 150)
    whole = tmp_path / "whole.parquet"
    frame.to_parquet(whole)
    shuffled = frame.sample(frac=1, random_state=seed)
    paths = []
    for number in range(parts):
        paths.append(tmp_path / f"part{number}.{'csv' if number % 2 else 'parquet'}")
        part = shuffled.iloc[number::parts]
        part.to_csv(paths[-1], index=False) if number % 2 else part.to_parquet(paths[-1])

    once, apart = history_of(engine, [whole]), history_of(engine, paths[::-1])

    assert once.span == apart.span
    assert once.cells.keys() == apart.cells.keys()
    for key, cells in once.cells.items():
        other = apart.cells[key]
        for name in ("at", "bad", "total", "excluded", "run"):
            assert getattr(cells, name).tolist() == getattr(other, name).tolist()


def test_a_cell_divides_the_step_and_every_window() -> None:
    grid = grid_of(timedelta(seconds=15), [timedelta(seconds=20), timedelta(minutes=1)])

    assert grid.cell_us == 5_000_000
    assert grid.every == 3
    assert grid.at(grid.first_from(grid.at(7))) == grid.at(7)


def test_verdicts_asked_for_outside_of_the_requests_are_refused(
    engine: Engine, tmp_path: Path
) -> None:
    made(3, 20).to_parquet(tmp_path / "facts.parquet")
    found = judged(engine, [tmp_path / "facts.parquet"])

    with pytest.raises(BadInput, match="nothing to judge"):
        make_history(found, grid_for(SLOS, EVERY), since=datetime(2027, 1, 1, tzinfo=UTC))


def test_requests_after_the_last_verdict_are_not_looked_at(engine: Engine, tmp_path: Path) -> None:
    frame = made(4, 300)
    frame.to_parquet(tmp_path / "facts.parquet")
    found = judged(engine, [tmp_path / "facts.parquet"])
    until = datetime.fromtimestamp(BEGIN + 1800, UTC)

    history = make_history(found, grid_for(SLOS, EVERY), until=until)

    assert history is not None
    assert history.grid.at(history.span.end - 1) == until
    rows = frame.rename(columns={"cost_usd": "reported_cost_usd"}).to_dict("records")
    expected = recounted(SLOS[1], [row for row in rows if row["start"] <= BEGIN + 1800])[()]
    cells = history.of(SLOS[1], ())
    assert cells is not None
    assert (cells.bad[-1], cells.excluded[-1]) == (expected[1], expected[2])
