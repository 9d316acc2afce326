"""Open a store by its address."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from base.errors import ConfigError
from store.engine import Engine


def open_engine(url: str) -> Engine:
    """Open `chdb:///path` or `clickhouse://user:password@host:8123/database?cluster=name`.

    `clickhouses://` speaks TLS. The engine's library is imported only here, so a process that
    never opens a store never loads it.
    """
    parts = urlsplit(url)
    if parts.scheme == "chdb":
        if not parts.path:
            raise ConfigError(
                f"store url {url!r} has no path: write chdb:///var/lib/tokenweir/store"
            )
        from store.chdb_engine import ChdbEngine

        return ChdbEngine(Path(parts.path))
    if parts.scheme in {"clickhouse", "clickhouses"}:
        from store.clickhouse_engine import ClickHouseEngine

        options = parse_qs(parts.query)
        return ClickHouseEngine(
            host=parts.hostname or "localhost",
            port=parts.port or (8443 if parts.scheme == "clickhouses" else 8123),
            user=parts.username or "default",
            password=parts.password or "",
            database=parts.path.strip("/") or "tokenweir",
            secure=parts.scheme == "clickhouses",
            cluster=options.get("cluster", [None])[0],
        )
    raise ConfigError(f"store url starts with {parts.scheme!r}: use chdb:// or clickhouse://")
