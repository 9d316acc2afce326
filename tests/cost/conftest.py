"""A small store with the tables the ledger reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from chdb import session

_FACTS = """
CREATE TABLE facts (
  start DateTime64(9,'UTC'), end DateTime64(9,'UTC'), trace_id FixedString(16), request_id String,
  tenant LowCardinality(String), route LowCardinality(String), model LowCardinality(String),
  replica LowCardinality(String), user_id String, feature LowCardinality(String),
  outcome Enum8('good'=1,'bad'=2,'excluded'=3), engine_s Nullable(Float64),
  prompt_tokens Nullable(Int64), cached_tokens Nullable(Int64), completion_tokens Nullable(Int64),
  version UInt64, deleted UInt8
) ENGINE = ReplacingMergeTree(version, deleted) ORDER BY (start, trace_id, request_id)
"""
_ALIVE = """
CREATE TABLE alive (
  service String, instance String, role LowCardinality(String), model LowCardinality(String),
  gpu_type LowCardinality(String), gpu_count UInt16,
  start DateTime64(9,'UTC'), end DateTime64(9,'UTC')
) ENGINE = MergeTree ORDER BY (role, instance, start)
"""


class Chdb:
    def __init__(self, path: Path) -> None:
        self._session = session.Session(str(path))

    def arrow(self, sql: str, params: Mapping[str, Any] | None = None) -> Any:
        import pyarrow as pa

        data = self._session.query(sql, "Arrow", params=dict(params or {})).bytes()
        return pa.ipc.open_file(pa.py_buffer(data)).read_all()

    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> None:
        self._session.query(sql, params=dict(params or {}))


@pytest.fixture(scope="session")
def _engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chdb]:
    engine = Chdb(tmp_path_factory.mktemp("store"))
    engine.execute("CREATE DATABASE IF NOT EXISTS tokenweir")
    engine.execute("USE tokenweir")
    engine.execute(_FACTS)
    engine.execute(_ALIVE)
    yield engine
    engine._session.close()


@pytest.fixture
def engine(_engine: Chdb) -> Chdb:
    _engine.execute("TRUNCATE TABLE facts")
    _engine.execute("TRUNCATE TABLE alive")
    return _engine
