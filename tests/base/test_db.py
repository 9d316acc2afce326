from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select, update

from base.db import UtcDateTime, open_engine, transaction
from base.errors import ConfigError

scratch = MetaData()
events = Table(
    "events", scratch, Column("id", Integer, primary_key=True), Column("at", UtcDateTime)
)
counter = Table("counter", scratch, Column("value", Integer, nullable=False))


def test_a_datetime_comes_back_aware_and_in_utc(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    scratch.create_all(engine)
    berlin = timezone(timedelta(hours=1))

    with transaction(engine) as db:
        db.execute(insert(events).values(id=1, at=datetime(2026, 11, 30, 19, tzinfo=berlin)))
        stored = db.execute(select(events.c.at)).scalar_one()

    assert stored == datetime(2026, 11, 30, 18, tzinfo=UTC)
    assert stored.tzinfo is UTC


def test_a_naive_datetime_is_never_stored(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    scratch.create_all(engine)

    with pytest.raises(Exception, match="naive"), transaction(engine) as db:
        db.execute(insert(events).values(id=1, at=datetime(2026, 11, 30)))  # noqa: DTZ001


def test_readers_that_then_write_wait_for_each_other_and_lose_nothing(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    scratch.create_all(engine)
    with transaction(engine) as db:
        db.execute(insert(counter).values(value=0))

    def add_twenty() -> None:
        for _ in range(20):
            with transaction(engine) as db:
                value = db.execute(select(counter.c.value)).scalar_one()
                db.execute(update(counter).values(value=value + 1))

    threads = [threading.Thread(target=add_twenty) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with transaction(engine) as db:
        assert db.execute(select(counter.c.value)).scalar_one() == 80


def test_a_transaction_that_raises_leaves_nothing(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    scratch.create_all(engine)

    with pytest.raises(RuntimeError), transaction(engine) as db:
        db.execute(insert(counter).values(value=1))
        raise RuntimeError

    with transaction(engine) as db:
        assert db.execute(select(counter)).all() == []


def test_an_unknown_database_says_which_are_known() -> None:
    with pytest.raises(ConfigError, match="use sqlite or postgresql"):
        open_engine("mysql://somewhere/db")
