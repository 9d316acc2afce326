"""A ClickHouse server or cluster over HTTP; the same SQL as the embedded engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from base.errors import Retryable
from store.arrow_values import needs_types, restore, to_rows
from store.chdb_engine import as_tokenweir
from store.engine import Params
from store.literals import plain

_QUERY = {"do_not_merge_across_partitions_select_final": 1, "max_execution_time": 120}
_INSERT = {
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "max_partitions_per_insert_block": 0,
    "async_insert": 0,
    "optimize_on_insert": 0,
    "query_plan_merge_expressions": 0,
}
_KNOWN_STATEMENTS = 1024


class ClickHouseEngine:
    """The server engine; implements `store.engine.Engine`. Needs the extra `clickhouse`."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        user: str = "default",
        password: str = "",
        database: str = "tokenweir",
        secure: bool = False,
        cluster: str | None = None,
    ) -> None:
        import clickhouse_connect
        from clickhouse_connect.driver.exceptions import ClickHouseError

        self.cluster = cluster
        self._failure = ClickHouseError
        self._types: dict[str, dict[str, str]] = {}
        address: dict[str, Any] = {
            "host": host,
            "port": port,
            "username": user,
            "password": password,
        }
        with clickhouse_connect.get_client(**address, secure=secure) as first:
            on_cluster = f" ON CLUSTER '{cluster}'" if cluster else ""
            first.command(f"CREATE DATABASE IF NOT EXISTS {database}{on_cluster}")
        self._client = clickhouse_connect.get_client(
            **address, database=database, secure=secure, autogenerate_session_id=False
        )

    def rows(self, sql: str, params: Params | None = None) -> list[dict[str, Any]]:
        return to_rows(self.arrow(sql, params))

    def arrow(self, sql: str, params: Params | None = None) -> pa.Table:
        table = self._select(sql, params)
        if not needs_types(table):
            return table
        if sql not in self._types:
            if len(self._types) >= _KNOWN_STATEMENTS:
                self._types.clear()
            found = self._select(f"DESCRIBE TABLE ({sql})", params).to_pydict()
            self._types[sql] = dict(zip(found["name"], found["type"], strict=True))
        return restore(table, self._types[sql])

    def execute(self, sql: str, params: Params | None = None) -> None:
        self._run(lambda: self._client.command(sql, parameters=plain(params or {})))

    def insert_protobuf(
        self, table: str, data: bytes, schema: str, message: str, token: str
    ) -> None:
        settings = _INSERT | {
            "insert_deduplication_token": token,
            "input_format_protobuf_oneof_presence": 1,
            "format_schema_source": "string",
            "format_schema": schema,
            "format_schema_message_name": message,
        }
        self._run(
            lambda: self._client.raw_insert(
                table, insert_block=data, settings=settings, fmt="Protobuf"
            )
        )

    def insert_arrow(self, table: str, data: pa.Table, token: str | None = None) -> None:
        settings = _INSERT | ({"insert_deduplication_token": token} if token else {})
        self._run(lambda: self._client.insert_arrow(table, data, settings=settings))

    def close(self) -> None:
        self._client.close()

    def _select(self, sql: str, params: Params | None) -> pa.Table:
        values = plain(params or {})
        answer: pa.Table = self._run(
            lambda: self._client.query_arrow(sql, values, settings=_QUERY, use_strings=True)
        )
        return answer

    def _run(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._failure as error:
            raise as_tokenweir(error) from error
        except OSError as error:
            raise Retryable(f"the ClickHouse server can't be reached: {error}") from error
