"""What a view on a landing table does, as one INSERT ... SELECT from elsewhere.

The engine runs a view on whole blocks, which hold the batch many times over, and plans it anew for
each of them. The same SELECT as a statement of its own streams, and is planned once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from base.errors import Retryable


class _Rows(Protocol):
    def rows(self, sql: str, params: dict[str, Any]) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class StreamedView:
    """A view's statement: it selects `columns` for `target` from `landing`.

    `structure` lists the columns of `landing` with their types.
    """

    landing: str
    structure: str
    target: str
    columns: str
    select: str

    def insert_from(self, file: str, form: str) -> str:
        """Write the INSERT that takes a file through the view."""
        structure = self.structure.replace("\\", "\\\\").replace("'", "\\'")
        source = f"file('{file}', '{form}', '{structure}')"
        select = self.select.replace(f"FROM {self.landing} ", f"FROM {source} ")
        if select == self.select:
            raise ValueError(f"the view does not read FROM {self.landing}: it would take nothing")
        return f"INSERT INTO {self.target} ({self.columns}) {select}"


def view_on(engine: _Rows, table: str) -> str:
    """Name the one view on `table`; its name says which statement it is."""
    found = engine.rows(
        "SELECT dependencies_table AS views FROM system.tables "
        "WHERE database = currentDatabase() AND name = {table:String}",
        {"table": table},
    )
    views: list[str] = found[0]["views"] if found else []
    if len(views) != 1:
        raise Retryable(f"{len(views)} views take what lands in {table}: is the store set up?")
    return views[0]


def statement_of(engine: _Rows, table: str, view: str) -> StreamedView:
    """Read the statement of `view` on `table`."""
    [made] = engine.rows(
        "SELECT database, as_select, target_table FROM system.tables "
        "WHERE database = currentDatabase() AND name = {view:String}",
        {"view": view},
    )
    columns = engine.rows(
        "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() "
        "AND table IN ({table:String}, {view:String}) ORDER BY position",
        {"table": table, "view": view},
    )
    return StreamedView(
        landing=f"{made['database']}.{table}",
        structure=", ".join(f"{c['name']} {c['type']}" for c in columns if c["table"] == table),
        target=made["target_table"],
        columns=", ".join(f"`{c['name']}`" for c in columns if c["table"] == view),
        select=made["as_select"],
    )
