"""One store for all tests of this folder: chdb allows one open folder per process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import slo.schema
import store.schema
from store.engine import Engine
from store.open import open_engine

_WRITTEN = ("facts", "alive", "source_minutes", "slo_counts_10s", "slo_counts_1m", "slo_counts_1h",
            "slo_built", "slo_complete", "slo_prometheus_minutes",
            "slo_prometheus_read")  # fmt: skip


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = open_slo_store(tmp_path_factory.mktemp("store"))
    yield engine
    engine.close()


@pytest.fixture
def engine(opened: Engine) -> Engine:
    empty(opened)
    return opened


def open_slo_store(path: Path) -> Engine:
    engine = open_engine(f"chdb://{path}")
    store.schema.create(engine)
    slo.schema.create(engine)
    return engine


def empty(engine: Engine) -> None:
    for table in _WRITTEN:
        engine.execute(f"TRUNCATE TABLE {table}")
