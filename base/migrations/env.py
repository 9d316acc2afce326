"""Run by Alembic inside a connection that `base.migrate` has opened."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlalchemy.types import TypeEngine

from base.db import UtcDateTime, metadata


def render_item(kind: str, item: Any, _autogen: Any) -> str | Literal[False]:
    """Write our column types as plain SQLAlchemy, so that a revision never imports the product."""
    if kind == "type" and isinstance(item, TypeEngine) and isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    return False


def run() -> None:
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_item=render_item,
        render_as_batch=True,  # SQLite cannot alter a column in place
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
