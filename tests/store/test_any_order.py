"""The same spans end in the same bytes: any order, any repetition, any batches, any restart."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.engine import Engine

sys.path.insert(0, str(Path(__file__).parent))  # for traffic.py beside this file

from traffic import some_traffic

Ingest = Callable[..., int]
FACTS = "SELECT * EXCEPT (version, deleted) FROM facts FINAL ORDER BY trace_id, request_id, start"
TABLES = ("rollup_10s", "rollup_1m", "rollup_1h")
CORPUS = 2  # seeds of traffic; each is compared with its in-order result


def state(engine: Engine) -> list[bytes]:
    """Everything derived, as bytes."""
    rollups = [
        f"SELECT * EXCEPT (version, deleted, ttft_hist, duration_hist), "
        f"arraySort(mapKeys(ttft_hist)), arraySort(mapKeys(duration_hist)), "
        f"mapValues(mapSort(ttft_hist)), mapValues(mapSort(duration_hist)) "
        f"FROM {table} FINAL ORDER BY bucket, tenant, route, model, replica, priority, outcome, "
        "outcome_reason"
        for table in TABLES
    ]
    return [repr(engine.arrow(sql).to_pydict()).encode() for sql in (FACTS, *rollups)]


@pytest.fixture
def in_order(
    span_body: Callable[..., bytes], ingest: Ingest, engine: Engine, clear: Callable[[], None]
) -> Callable[[int], tuple[list[bytes], list[bytes]]]:
    known: dict[int, tuple[list[bytes], list[bytes]]] = {}

    def result(seed: int) -> tuple[list[bytes], list[bytes]]:
        if seed not in known:
            clear()
            bodies = some_traffic(span_body, seed)
            ingest(bodies)
            known[seed] = bodies, state(engine)
        return known[seed]

    return result


@pytest.mark.slow
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, CORPUS - 1), data=st.data())
def test_order_repetition_and_batches_do_not_matter(
    seed: int,
    data: st.DataObject,
    in_order: Callable[[int], tuple[list[bytes], list[bytes]]],
    ingest: Ingest,
    engine: Engine,
    clear: Callable[[], None],
) -> None:
    bodies, expected = in_order(seed)
    sent = data.draw(st.permutations(bodies + bodies[: data.draw(st.integers(0, len(bodies)))]))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sent) - 1), max_size=4)))
    clear()
    for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        ingest(sent[begin:end])

    assert state(engine) == expected


def test_three_times_the_same_gives_the_same(
    in_order: Callable[[int], tuple[list[bytes], list[bytes]]],
    ingest: Ingest,
    engine: Engine,
    clear: Callable[[], None],
) -> None:
    bodies, expected = in_order(0)
    clear()
    for _ in range(3):
        ingest(list(reversed(bodies)))

    assert state(engine) == expected
    for table in ("spans", "facts", *TABLES):
        engine.execute(f"OPTIMIZE TABLE {table} FINAL")
    assert state(engine) == expected


def test_rollups_equal_a_recount_of_the_facts_in_plain_python(
    span_body: Callable[..., bytes], ingest: Ingest, engine: Engine
) -> None:
    ingest(some_traffic(span_body, 7, requests=60))

    facts = engine.rows("SELECT * FROM facts FINAL")
    for table, size in zip(TABLES, (10, 60, 3600), strict=True):
        counted: dict[tuple[object, ...], list[float]] = {}
        for fact in facts:
            key = (
                int(fact["start"].timestamp()) // size * size,
                *(fact[n] for n in ("tenant", "route", "model", "replica", "priority")),
                fact["outcome"], fact["outcome_reason"],
            )  # fmt: skip
            sums = counted.setdefault(key, [0, 0, 0, 0])
            known = None not in (fact["prompt_tokens"], fact["completion_tokens"])
            sums[0] += 1
            sums[1] += fact["prompt_tokens"] or 0
            sums[2] += fact["completion_tokens"] or 0
            sums[3] += not known
        rolled = {
            (
                int(row["bucket"].timestamp()),
                *(row[n] for n in ("tenant", "route", "model", "replica", "priority")),
                row["outcome"], row["outcome_reason"],
            ): [row[n] for n in ("requests", "prompt_tokens", "completion_tokens", "unknown_usage")]
            for row in engine.rows(f"SELECT * FROM {table} FINAL")
        }  # fmt: skip
        assert rolled == counted
