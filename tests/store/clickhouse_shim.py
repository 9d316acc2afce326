"""A small ClickHouse HTTP interface over chdb, for the official client. Test use only.

    python clickhouse_shim.py FOLDER     prints the port it listens on, on loopback

It runs in its own process: chdb serves one folder per process.
"""

from __future__ import annotations

import gzip
import re
import sys
import threading
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from chdb import session

# What the client says about the connection, not about the query.
CONNECTION = {
    "query", "database", "default_format", "session_id", "query_id", "compress", "decompress",
    "enable_http_compression", "client_protocol_version", "wait_end_of_query", "role",
    "cancel_http_readonly_queries_on_client_close", "send_progress_in_http_headers",
    "http_headers_progress_interval_ms", "session_timeout", "session_check", "buffer_size",
}  # fmt: skip
FORMAT = re.compile(r"\s+FORMAT\s+(\w+)\s*$", re.IGNORECASE)


class Shim(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Any
    folder: Path
    lock = threading.Lock()

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        body = self._body()
        if address.path == "/ping":
            self._answer(200, b"Ok.\n", {})
            return
        said = dict(parse_qsl(address.query, keep_blank_values=True))
        if "multipart/form-data" in self.headers.get("content-type", ""):
            head = b"content-type: " + self.headers["content-type"].encode() + b"\r\n\r\n"
            for part in BytesParser().parsebytes(head + body).get_payload():
                name = part.get_param("name", header="content-disposition")
                said[name] = part.get_payload(decode=True).decode()
            body = b""
        try:
            with self.lock:
                form, answer = self._run(said, body)
        except RuntimeError as error:
            code = re.search(r"Code: (\d+)", str(error))
            headers = {"X-ClickHouse-Exception-Code": code.group(1) if code else "1002"}
            self._answer(500, str(error).encode(), headers)
        else:
            self._answer(200, answer, {"X-ClickHouse-Format": form})

    def _run(self, said: dict[str, str], body: bytes) -> tuple[str, bytes]:
        settings = {k: v for k, v in said.items() if k not in CONNECTION and k[:6] != "param_"}
        values = {k[6:]: v for k, v in said.items() if k.startswith("param_")}
        if said.get("database"):
            self.engine.query(f"USE `{said['database']}`")
        sql = said.get("query", "")
        if not sql:
            sql, _, body = body.decode("latin-1").partition("\n") if _is_insert(body) else (
                body.decode(), "", "",
            )  # fmt: skip
            body = body.encode("latin-1") if isinstance(body, str) else body
        elif body and not _is_insert(sql.encode()):
            sql, body = f"{sql}\n{body.decode()}", b""
        sql = sql.strip().rstrip(";")
        written = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        found = FORMAT.search(sql)
        form = found.group(1) if found else said.get("default_format", "TabSeparated")
        sql = sql[: found.start()] if found else sql
        if _is_insert(sql.encode()) and body:
            self._insert(sql, form, body, written)
            return form, b""
        if written and sql.lstrip().lower().startswith(("select", "with", "describe")):
            sql = f"{sql} SETTINGS {written}"
        answer = self.engine.query(sql, form, params=values or None)
        return form, bytes(answer.bytes() or b"")

    def _insert(self, sql: str, form: str, body: bytes, settings: str) -> None:
        with NamedTemporaryFile(dir=self.folder, suffix=".bin") as file:
            file.write(body)
            file.flush()
            if "insert_deduplication_token" in settings:
                settings += ", deduplicate_insert_select='force_enable'"
            tail = f" SETTINGS {settings}" if settings else ""
            self.engine.query(f"{sql} SELECT * FROM file('{file.name}', '{form}'){tail}")

    def _body(self) -> bytes:
        length = self.headers.get("content-length")
        if length is not None:
            raw = self.rfile.read(int(length))
        else:
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            raw = b"".join(chunks)
        encoding = self.headers.get("content-encoding", "")
        if encoding == "zstd":
            import zstandard

            return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(raw))
        if encoding == "lz4":
            import lz4.frame

            return bytes(lz4.frame.decompress(raw))
        return gzip.decompress(raw) if encoding == "gzip" else raw

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        told = {"X-ClickHouse-Timezone": "UTC", "X-ClickHouse-Summary": "{}"} | headers
        for name, value in told.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def _is_insert(text: bytes) -> bool:
    """Say whether data follow the statement; INSERT SELECT brings none."""
    head = text[:4000].lstrip().lower()
    return head.startswith(b"insert") and not re.search(rb"\bselect\b", head)


def main() -> None:
    Shim.folder = Path(sys.argv[1])
    Shim.engine = session.Session(f"{Shim.folder}/data")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shim)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
