"""Requests that are not in a store: judged by the engine, a batch at a time, in a table in memory.

The table has the columns of `facts` that the SLOs read, with their types, but that what a file does
not say is NULL in it: `facts` itself never lacks an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Self

import pyarrow as pa

from slo.backtest.cells import Gathered, read_judged
from slo.backtest.values import ARRIVALS
from slo.columns import COLUMNS
from slo.expression import columns_of
from slo.model import Slo
from slo.windows import Span
from store.engine import Engine

TABLE = "slo_scratch"
EVER: Span = (0, 2**63 - 1)
_ALWAYS = ("start", "outcome", "outcome_reason")


def columns_read(slos: Iterable[Slo], also: Collection[str] = ()) -> tuple[str, ...]:
    """Name the columns that judging these SLOs takes, and `also`, in the order of the table."""
    read = columns_named(slos).union(also)
    known = (*COLUMNS, ARRIVALS)
    return (*_ALWAYS, *(name for name in known if name in read and name not in _ALWAYS))


def columns_named(slos: Iterable[Slo]) -> set[str]:
    """Name the columns of a request that these SLOs look at."""
    read = {"outcome"}
    for slo in slos:
        read |= {*slo.group_by}
        for clause in slo.good:
            read |= columns_of(clause.expression)
        if slo.eligible is not None:
            read |= columns_of(slo.eligible)
        for part in slo.questions:
            read |= set() if part.weight is None else columns_of(part.weight.by)
    return read


class Scratch:
    """A table for one batch at a time; a context manager, so that nothing stays behind."""

    def __init__(self, engine: Engine, columns: Sequence[str]) -> None:
        self._engine = engine
        self.columns = tuple(columns)

    def __enter__(self) -> Self:
        types = {
            row["name"]: row["type"]
            for row in self._engine.rows(
                "SELECT name, type FROM system.columns "
                "WHERE database = currentDatabase() AND table = 'facts'"
            )
        } | {ARRIVALS: "Array(Float64)"}
        columns = ", ".join(f"{name} {_nullable(name, types[name])}" for name in self.columns)
        self._engine.execute(f"DROP TABLE IF EXISTS {TABLE}")
        self._engine.execute(f"CREATE TABLE {TABLE} ({columns}) ENGINE = Memory")
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.execute(f"DROP TABLE IF EXISTS {TABLE}")

    def fill(self, batch: pa.Table) -> None:
        """Hold these requests and no others."""
        self._engine.execute(f"TRUNCATE TABLE {TABLE}")
        self._engine.insert_arrow(TABLE, batch.select(self.columns))


def judge_batches(
    scratch: Scratch,
    engine: Engine,
    slos: Sequence[Slo],
    batches: Iterable[pa.Table],
    also: Callable[[str], None] | None = None,
) -> Gathered:
    """Judge every batch; the order of requests and batches does not matter.

    `also` is told where each batch can be read, while it is there.
    """
    found = Gathered()
    for batch in batches:
        scratch.fill(batch)
        if also is not None:
            also(TABLE)
        read_judged(engine, slos, [EVER], found, facts=TABLE)
    return found


def _nullable(name: str, kind: str) -> str:
    if name == "start" or kind.startswith(("Nullable", "LowCardinality", "String", "Array")):
        return kind
    return f"Nullable({kind})"
