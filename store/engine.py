"""The one interface to the telemetry store.

Two engines implement it: chdb (ClickHouse's engine inside this process) and a ClickHouse server
over HTTP. The SQL text is the same for both; see `store.dialect` for the only substitutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

Params = Mapping[str, Any]


class Engine(Protocol):
    """Runs ClickHouse SQL with typed placeholders: `{name:Type}`.

    Any thread may call any method; calls of different threads run in parallel.
    """

    @property
    def cluster(self) -> str | None:
        """The cluster that tables are created on; None for a single server or chdb."""
        ...

    def rows(self, sql: str, params: Params | None = None) -> list[dict[str, Any]]:
        """Run a SELECT; NULL is None, times are aware UTC datetimes, maps are dicts."""
        ...

    def arrow(self, sql: str, params: Params | None = None) -> pa.Table:
        """Run a SELECT; DateTime becomes timestamp[s, UTC], an Enum its name."""
        ...

    def execute(self, sql: str, params: Params | None = None) -> None:
        """Run one statement that returns nothing."""
        ...

    def insert_protobuf(
        self, table: str, data: bytes, schema: str, message: str, token: str
    ) -> None:
        """Insert length-delimited messages of type `message`, defined by the text `schema`.

        A second insert with the same `token` changes nothing, in `table` and in every view on it.
        """
        ...

    def insert_arrow(self, table: str, data: pa.Table, token: str | None = None) -> None:
        """Insert the columns of `data` by name."""
        ...

    def close(self) -> None:
        """Release the store; no other method may be called afterwards."""
        ...
