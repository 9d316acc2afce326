"""ClickHouse's engine inside this process.

One store belongs to one process. Each thread gets its own session: a session serialises its
callers, sessions run in parallel. Never fork after opening.
"""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow as pa

from base.errors import Permanent, Retryable, TokenweirError
from store.arrow_values import needs_types, restore, to_rows
from store.engine import Params
from store.literals import rendered
from store.streamed_view import StreamedView, statement_of, view_on

# The process stays below 900 MB with these: caches are small because the data are local, merges
# are limited to parts that fit, and two threads are all a laptop should give.
_SERVER = {
    "max_server_memory_usage": 600_000_000,
    "mark_cache_size": 33_554_432,
    "primary_index_cache_size": 33_554_432,
    "index_mark_cache_size": 8_388_608,
    "uncompressed_cache_size": 0,
    "compiled_expression_cache_size": 16_777_216,
    "background_pool_size": 2,
    "background_merges_mutations_concurrency_ratio": 1,
    "background_common_pool_size": 1,
    "background_move_pool_size": 1,
    "background_fetches_pool_size": 1,
    "background_schedule_pool_size": 2,
}
_SESSION = {
    "max_threads": 2,
    "max_insert_threads": 1,
    "max_partitions_per_insert_block": 0,
    "do_not_merge_across_partitions_select_final": 1,
    "max_memory_usage": 450_000_000,
    "max_bytes_before_external_group_by": 150_000_000,
    "max_bytes_before_external_sort": 150_000_000,
    "max_execution_time": 120,
}
_INSERT = (
    "deduplicate_blocks_in_dependent_materialized_views=1, async_insert=0, "
    # Readers never count on rows being merged already; merging them on the way in costs a third.
    "optimize_on_insert=0, "
    # This rewrite gains nothing on the generated views and doubles the cost of planning them.
    "optimize_and_compare_chain=0"
)
# The data are at fault: they can't be read, or a value in them fits no type. After any other error
# (memory, disk, too many parts, timeouts, what we don't know) the same statement may work later.
_DATA_FAULTS = {
    "3", "6", "19", "25", "26", "27", "32", "33", "38", "41", "69", "72", "117", "128", "131",
    "321", "376", "407", "435", "436", "437", "441", "443", "444", "467", "632", "691",
}  # fmt: skip
_UNREADABLE = "Invalid protobuf data"  # of code 36, which means other things as well
# Blocks small enough to be in memory several times; one thread, so that equal batches make equal
# blocks. Merging the steps of a generated statement doubles the cost of planning it.
_STREAM = (
    "input_format_max_block_size_bytes=3000000, max_threads=1, query_plan_merge_expressions=0, "
    "deduplicate_insert_select='force_enable'"
)
_KNOWN_STATEMENTS = 1024
_MESSAGE_CHARS = 600


class ChdbEngine:
    """The embedded engine on a folder; implements `store.engine.Engine`."""

    cluster: str | None = None

    def __init__(self, path: Path, database: str = "tokenweir") -> None:
        self._landing = path / "landing"
        self._landing.mkdir(parents=True, exist_ok=True)
        settings = "&".join(f"{name}={value}" for name, value in _SERVER.items())
        self._address = f"{path}?{settings}"
        self._database = database
        self._local = threading.local()
        self._sessions: list[Any] = []
        self._lock = threading.Lock()
        self._types: dict[str, dict[str, str]] = {}
        self._views: dict[str, StreamedView] = {}
        self._session().query("SELECT 1")

    def rows(self, sql: str, params: Params | None = None) -> list[dict[str, Any]]:
        return to_rows(self.arrow(sql, params))

    def arrow(self, sql: str, params: Params | None = None) -> pa.Table:
        values = rendered(params or {})
        answer = self._query(sql, "ArrowStream", values)
        raw = answer.bytes()
        if not raw:
            return pa.table({})
        table = pa.ipc.open_stream(pa.py_buffer(raw)).read_all()
        return restore(table, self._result_types(sql, values)) if needs_types(table) else table

    def execute(self, sql: str, params: Params | None = None) -> None:
        self._query(sql, "Null", rendered(params or {}))

    def insert_protobuf(
        self, table: str, data: bytes, schema: str, message: str, token: str
    ) -> None:
        # As one statement that streams through what the table's view does. The view itself would
        # hold the whole batch in memory, many times over. And a streaming insert reports success
        # when a view runs out of memory, and the rows are gone.
        quoted = schema.replace("\\", "\\\\").replace("'", "\\'")
        view = self._view_on(table)
        with NamedTemporaryFile(prefix="insert-", suffix=".bin", dir=self._landing) as file:
            file.write(data)
            file.flush()
            self.execute(
                f"{view.insert_from(file.name, 'Protobuf')} "
                f"SETTINGS {_INSERT}, {_STREAM}, insert_deduplication_token='{token}', "
                "input_format_protobuf_oneof_presence=1, "
                f"format_schema_source='string', format_schema='{quoted}', "
                f"format_schema_message_name='{message}'"
            )

    def insert_arrow(self, table: str, data: pa.Table, token: str | None = None) -> None:
        columns = ", ".join(f"`{name}`" for name in data.column_names)
        dedup = f", insert_deduplication_token='{token}'" if token else ""
        self._insert(
            f"INSERT INTO {table} ({columns}) SETTINGS {_INSERT}{dedup}",
            "ArrowStream",
            _ipc(data),
            data.num_rows,
        )

    def close(self) -> None:
        """Close every session; chdb flushes and unlocks the folder with the last one."""
        with self._lock:
            for session in self._sessions:
                session.close()
            self._sessions.clear()
        self._local = threading.local()

    def _view_on(self, table: str) -> StreamedView:
        name = view_on(self, table)
        if name not in self._views:
            self._views = {name: statement_of(self, table, name)}
        return self._views[name]

    def _session(self) -> Any:
        session: Any = getattr(self._local, "session", None)
        if session is None:
            from chdb import session as chdb_session

            session = chdb_session.Session(self._address)  # type: ignore[no-untyped-call]
            session.query(f"CREATE DATABASE IF NOT EXISTS {self._database}")
            session.query(f"USE {self._database}")
            session.query("SET " + ", ".join(f"{k}={v}" for k, v in _SESSION.items()))
            self._local.session = session
            with self._lock:
                self._sessions.append(session)
        return session

    def _query(self, sql: str, form: str, values: dict[str, str]) -> Any:
        try:
            return self._session().query(sql, form, params=values or None)
        except RuntimeError as error:
            raise as_tokenweir(error) from error

    def _insert(self, statement: str, form: str, data: bytes, rows: int) -> None:
        try:
            inserter = self._session().send_insert(statement, form)
            inserter.append(data)
            written = inserter.finish().rows_written
        except RuntimeError as error:
            raise as_tokenweir(error) from error
        if written < rows:
            raise Retryable(f"the engine wrote {written} of {rows} rows: it is short of memory")

    def _result_types(self, sql: str, values: dict[str, str]) -> dict[str, str]:
        if sql not in self._types:
            if len(self._types) >= _KNOWN_STATEMENTS:
                self._types.clear()
            answer = self._query(f"DESCRIBE TABLE ({sql})", "ArrowStream", values)
            table = pa.ipc.open_stream(pa.py_buffer(answer.bytes())).read_all()
            names, types = table.column("name").to_pylist(), table.column("type").to_pylist()
            self._types[sql] = dict(zip(names, types, strict=True))
        return self._types[sql]


def as_tokenweir(error: Exception) -> TokenweirError:
    """Sort an engine's error by what to do: give up on data that can't be read, retry the rest."""
    text = str(error)[:_MESSAGE_CHARS]  # the engine repeats the whole statement in its messages
    code = text.partition("Code: ")[2].partition(".")[0]
    at_fault = code in _DATA_FAULTS or _UNREADABLE in text
    return Permanent(text) if at_fault else Retryable(text)


def _ipc(data: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return bytes(sink.getvalue().to_pybytes())
