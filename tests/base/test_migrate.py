from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, inspect, text

from base import migrate
from base.db import UtcDateTime, open_engine
from base.errors import ConfigError

ROOT = Path(__file__).parents[2]
TABLE_MODULES = sorted(f"{path.parent.name}.tables" for path in ROOT.glob("*/tables.py"))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/control.db")
    yield engine
    engine.dispose()


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> MetaData:
    """A metadata of one table in the place of the product's."""
    metadata = MetaData()
    Table("things", metadata, Column("id", Integer, primary_key=True), Column("at", UtcDateTime))
    monkeypatch.setattr("base.migrate.metadata", metadata)
    monkeypatch.setattr("base.db.metadata", metadata)
    return metadata


def names(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names())


def test_what_is_declared_becomes_a_revision_that_makes_it(
    engine: Engine, declared: MetaData, tmp_path: Path
) -> None:
    folder = tmp_path / "versions"
    folder.mkdir()

    first = migrate.write_revision("make things", engine, folder)
    assert first is not None
    assert first.name == "0001_make_things.py"
    assert "base.db" not in first.read_text()
    migrate.upgrade(engine, folder)
    assert names(engine) == {"things", "alembic_version"}
    assert migrate.write_revision("nothing", engine, folder) is None

    declared.tables["things"].append_column(Column("name", String(10)))
    second = migrate.write_revision("name things", engine, folder)
    migrate.upgrade(engine, folder)

    assert second is not None
    assert second.name == "0002_name_things.py"
    assert {column["name"] for column in inspect(engine).get_columns("things")} == {
        "id",
        "at",
        "name",
    }


def test_an_upgrade_that_is_not_needed_is_quick(
    engine: Engine, declared: MetaData, tmp_path: Path
) -> None:
    folder = tmp_path / "versions"
    folder.mkdir()
    migrate.write_revision("make things", engine, folder)
    migrate.upgrade(engine, folder)

    started = time.process_time()
    migrate.upgrade(engine, folder)

    assert time.process_time() - started < 0.3


def test_a_database_of_a_newer_version_is_refused(
    engine: Engine, declared: MetaData, tmp_path: Path
) -> None:
    folder = tmp_path / "versions"
    folder.mkdir()
    migrate.write_revision("make things", engine, folder)
    migrate.upgrade(engine, folder)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(ConfigError, match="revision 9999"):
        migrate.upgrade(engine, folder)


def test_the_bundled_revisions_make_what_the_folders_declare(
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not migrate.revisions():
        pytest.skip("no revision has been written yet")

    code = migrate.main(["check", *TABLE_MODULES])

    assert code == 0, capsys.readouterr().out
