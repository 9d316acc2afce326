"""Bring the control database to the newest schema, and write new revisions.

    python -m base.migrate revision "add silences" alerts.tables slo.tables …
    python -m base.migrate check alerts.tables slo.tables …

Tables are declared above this folder, so whoever calls names the modules that declare them; an
upgrade needs only the revision scripts.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from base.db import metadata, open_engine
from base.errors import ConfigError

_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 7_460_211_853_917_264  # any number, the same in every process


def upgrade(engine: Engine, folder: Path | None = None) -> None:
    """Apply the revisions that are missing; nothing is written when there are none.

    Processes may start together: one upgrades, the others wait and find nothing to do.
    `folder` holds other revisions than the bundled ones.
    """
    config = _config(folder)
    heads = set(ScriptDirectory.from_config(config).get_heads())
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        current = set(MigrationContext.configure(connection).get_current_heads())
        if current == heads:
            return
        _refuse_newer(config, current)
        config.attributes["connection"] = connection
        command.upgrade(config, "heads")


def revisions() -> list[str]:
    """List the revision ids, newest first; empty before the first one is written."""
    scripts = ScriptDirectory.from_config(_config())
    return [script.revision for script in scripts.walk_revisions()]


def write_revision(message: str, engine: Engine, folder: Path | None = None) -> Path | None:
    """Write the difference between `engine`, at the newest revision, and the declared tables.

    Returns the new script, or None if there is no difference.
    """
    config = _config(folder)
    with engine.begin() as connection:
        if not differences(connection):
            return None
        config.attributes["connection"] = connection
        number = f"{len(list((folder or _FOLDER / 'versions').glob('*.py'))) + 1:04d}"
        made: Any = command.revision(config, message, autogenerate=True, rev_id=number)
    return Path(made.path)


def differences(connection: Connection) -> list[Any]:
    """Compare the database with the tables declared so far."""
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, metadata))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m base.migrate", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    revise = commands.add_parser("revision", help="write a revision for what has changed")
    revise.add_argument("message")
    check = commands.add_parser("check", help="exit 1 if a revision is missing")
    for one in (revise, check):
        one.add_argument("modules", nargs="+", help="modules that declare tables: alerts.tables")
    chosen = parser.parse_args(arguments)
    for module in chosen.modules:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as scratch:
        engine = open_engine(f"sqlite:///{scratch}/control.db")
        try:
            upgrade(engine)
            return (
                _revise(engine, chosen.message) if chosen.command == "revision" else _check(engine)
            )
        finally:
            engine.dispose()


def _revise(engine: Engine, message: str) -> int:
    path = write_revision(message, engine)
    _say(f"wrote {path}" if path else "nothing has changed")
    return 0


def _check(engine: Engine) -> int:
    with engine.begin() as connection:
        found = differences(connection)
    for difference in found:
        _say(f"no revision for: {difference}")
    return 1 if found else 0


def _refuse_newer(config: Config, current: set[str]) -> None:
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    unknown = sorted(current - known)
    if unknown:
        raise ConfigError(
            f"the control database is at revision {unknown[0]}, which this version does not know: "
            "it was written by a newer tokenweir; run that one, or restore a backup"
        )


def _config(folder: Path | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    if folder is not None:
        config.set_main_option("version_locations", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "newline")
    return config


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
