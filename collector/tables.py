"""Control tables of the collector."""

from __future__ import annotations

from sqlalchemy import Column, Index, String, Table

from base.db import UtcDateTime, metadata

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("role", String(20), nullable=False),
    Column("tenant", String(200), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("revoked_at", UtcDateTime),
    Index("ix_api_keys_revoked_at", "revoked_at"),
)
