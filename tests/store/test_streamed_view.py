"""A batch goes through its view as one statement: in many blocks, into one part, exactly once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from base.errors import Retryable
from store.engine import Engine
from store.otlp import LANDING
from store.spans import SpanRecord, SpanStore
from store.streamed_view import StreamedView, statement_of, view_on

Body = Callable[..., bytes]
PARTS = "SELECT count() AS parts FROM system.parts WHERE active AND table = 'spans'"


def test_a_batch_of_many_blocks_is_one_part_and_is_stored_once(
    engine: Engine, span_body: Body
) -> None:
    text = {"text": "x" * 40_000}
    bodies = [
        span_body(*({"trace": f"{n:x}", "id": f"{i:x}", "attributes": text} for i in range(1, 21)))
        for n in range(1, 11)
    ]
    records = [SpanRecord(body, "", "test", 1) for body in bodies]
    assert sum(len(body) for body in bodies) > 2 * 3_000_000

    for _ in range(2):
        SpanStore(engine).insert(records, "range", 7)

    assert engine.rows("SELECT count() AS spans FROM spans") == [{"spans": 200}]
    assert engine.rows(PARTS) == [{"parts": 1}]


def test_the_statement_reads_the_file_where_the_view_reads_the_table(engine: Engine) -> None:
    view = statement_of(engine, LANDING, view_on(engine, LANDING))

    statement = view.insert_from("/data/x.bin", "Protobuf")

    assert statement.startswith("INSERT INTO spans (`bucket`, `trace_id`")
    assert "FROM file('/data/x.bin', 'Protobuf', 'traces Tuple(" in statement
    assert LANDING not in statement


def test_quotes_in_the_types_of_columns_are_kept() -> None:
    view = StreamedView("d.t", "kind Enum8('a' = 1)", "spans", "`kind`", "SELECT kind FROM d.t ")

    assert view.insert_from("f", "Protobuf") == (
        "INSERT INTO spans (`kind`) SELECT kind FROM "
        r"file('f', 'Protobuf', 'kind Enum8(\'a\' = 1)') "
    )


def test_a_store_without_the_view_takes_nothing_and_may_later(engine: Engine) -> None:
    with pytest.raises(Retryable, match="0 views take what lands in rollup_1h"):
        view_on(engine, "rollup_1h")
