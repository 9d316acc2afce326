"""The same SQL on a ClickHouse server: the official client over HTTP, here against a shim on chdb.

Where CLICKHOUSE_URL is set (clickhouse://user:password@host:8123/scratch_database) it is used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from base.errors import Retryable
from collector.view import install
from collector.vocabulary import load
from store import schema
from store.dialect import for_cluster
from store.engine import Engine
from store.facts import FactBuilder
from store.open import open_engine
from store.otlp import SpanRecord
from store.rollup import RollupWriter
from store.spans import SpanStore


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if os.environ.get("CLICKHOUSE_URL"):
        yield os.environ["CLICKHOUSE_URL"]
        return
    folder = tmp_path_factory.mktemp("clickhouse")
    program = Path(__file__).with_name("clickhouse_shim.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield f"clickhouse://default@127.0.0.1:{int(process.stdout.readline())}/tokenweir"
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="module")
def remote(server: str) -> Iterator[Engine]:
    engine = open_engine(server)
    schema.create(engine)
    schema.create(engine)
    install(engine, load())
    yield engine
    engine.close()


def test_values_come_back_as_they_do_from_the_embedded_engine(remote: Engine) -> None:
    moment = datetime(2026, 11, 30, 18, 0, 0, 125_000, tzinfo=UTC)
    sql = (
        "SELECT {text:String} AS text, {at:DateTime64(6, 'UTC')} AS at, "
        "{many:Array(String)} AS many, toDateTime({at:DateTime64(6, 'UTC')}, 'UTC') AS second, "
        "map('k', 'v') AS pairs, "
        "CAST('bad', 'Enum8(\\'good\\' = 1, \\'bad\\' = 2)') AS outcome, NULL AS nothing"
    )
    values = {"text": "a'b\\c\nd", "at": moment, "many": ["x'y", "z"]}

    assert remote.rows(sql, values) == [
        {
            "text": "a'b\\c\nd", "at": moment, "many": ["x'y", "z"],
            "second": moment.replace(microsecond=0), "pairs": {"k": "v"}, "outcome": "bad",
            "nothing": None,
        }
    ]  # fmt: skip


def test_a_scenario_gives_the_same_facts_and_rollups_on_a_server(
    remote: Engine, scenario: Callable[[str], tuple[list[bytes], list[dict[str, object]]]]
) -> None:
    bodies, seen = scenario("router-errors")
    records = [SpanRecord(body, "", "test", 1) for body in bodies]
    for _ in range(2):
        SpanStore(remote).insert(records, "range", 1)
        RollupWriter(remote).refresh(FactBuilder(remote).refresh(1), 1)

    [row] = remote.rows(
        "SELECT count() AS requests, countIf(outcome = 'good') AS good FROM facts FINAL"
    )
    [rolled] = remote.rows("SELECT sum(requests) AS requests FROM rollup_1h FINAL")
    assert row == {"requests": len(seen) + 1, "good": 3}
    assert rolled["requests"] == row["requests"]


def test_an_error_that_is_not_the_data_is_worth_another_try(remote: Engine) -> None:
    with pytest.raises(Retryable, match="Code: "):
        remote.rows("SELECT no_such_column FROM facts")


def test_a_cluster_gets_replicated_engines_and_nothing_else_changes() -> None:
    created = for_cluster(
        "CREATE TABLE IF NOT EXISTS t (a UInt8) ENGINE = MergeTree() ORDER BY a", "c"
    )

    assert created.startswith("CREATE TABLE IF NOT EXISTS t ON CLUSTER 'c' (a UInt8)")
    assert (
        "ENGINE = ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}')" in created
    )
    assert for_cluster("DROP TABLE IF EXISTS t", None) == "DROP TABLE IF EXISTS t"
    for table in schema.TABLES:
        assert "ON CLUSTER 'c'" in for_cluster(table, "c")
        assert "ENGINE = Replicated" in for_cluster(table, "c")
