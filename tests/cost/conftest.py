"""A real store, emptied before each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from store import schema
from store.engine import Engine
from store.open import open_engine


@pytest.fixture(scope="module")
def _engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = open_engine(f"chdb://{tmp_path_factory.mktemp('store')}")
    schema.create(engine)
    yield engine
    engine.close()


@pytest.fixture
def engine(_engine: Engine) -> Engine:
    for table in ("facts", "alive"):
        _engine.execute(f"TRUNCATE TABLE {table}")
    return _engine
