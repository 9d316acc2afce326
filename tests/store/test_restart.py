"""A restart in the middle of a batch: redone with the same token and number, nothing is doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.view import install
from collector.vocabulary import load
from store import schema
from store.engine import Engine
from store.facts import FactBuilder
from store.open import open_engine
from store.otlp import SpanRecord
from store.rollup import RollupWriter
from store.spans import SpanStore

COUNTS = {
    "spans": "SELECT count() AS n FROM spans",
    "accepted": "SELECT sum(accepted) AS n FROM ingest_batches",
    "duplicate": "SELECT sum(duplicate) AS n FROM ingest_duplicates FINAL",
    "facts": "SELECT count() AS n FROM facts FINAL",
    "requests": "SELECT sum(requests) AS n FROM rollup_10s FINAL",
    "hourly": "SELECT sum(requests) AS n FROM rollup_1h FINAL",
}


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    opened: list[Engine] = []

    def again() -> Engine:
        while opened:
            opened.pop().close()
        engine = open_engine(f"chdb://{tmp_path}/store")
        schema.create(engine)
        install(engine, load())
        opened.append(engine)
        return engine

    yield again
    while opened:
        opened.pop().close()


def counts(engine: Engine) -> dict[str, int]:
    return {name: int(engine.rows(sql)[0]["n"]) for name, sql in COUNTS.items()}


@pytest.mark.parametrize("done", ["spans", "facts", "everything"])
def test_a_batch_redone_after_a_restart_changes_nothing(
    done: str, reopen: Callable[[], Engine], span_body: Callable[..., bytes]
) -> None:
    bodies = [
        span_body(
            {"trace": f"{n:x}", "id": f"{n:x}", "name": "llm_request", "kind": 2, "start_ms": n},
            service="vllm",
        )
        for n in range(1, 21)
    ]
    records = [SpanRecord(body, "", "test", 1) for body in bodies]
    engine = reopen()
    SpanStore(engine).insert(records, "range-0-20", 1)
    if done != "spans":
        dirty = FactBuilder(engine).refresh(1)
        if done == "everything":
            RollupWriter(engine).refresh(dirty, 1)

    engine = reopen()
    SpanStore(engine).insert(records, "range-0-20", 1)
    RollupWriter(engine).refresh(FactBuilder(engine).refresh(1), 1)

    expected = {"spans": 20, "accepted": 20, "duplicate": 0, "facts": 20, "requests": 20}
    assert counts(engine) == expected | {"hourly": 20}
