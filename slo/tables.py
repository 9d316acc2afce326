"""Tables of the control database that judging owns: document versions, and what does not count."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Integer, String, Table, Text

from base.db import UtcDateTime, metadata

exclusions = Table(
    "slo_exclusions",
    metadata,
    Column("id", String(26), primary_key=True),
    Column("slos", JSON, nullable=False),
    Column("match", JSON, nullable=False),
    Column("starts_at", UtcDateTime, nullable=False),
    Column("ends_at", UtcDateTime, nullable=False),
    Column("rrule", Text, nullable=False),
    Column("zone", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("approved_by", String(256)),
    Column("approved_at", UtcDateTime),
    Column("reverted_by", String(256)),
    Column("reverted_at", UtcDateTime),
)

versions = Table(
    "slo_versions",
    metadata,
    Column("slo", String(64), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("said", JSON, nullable=False),
    Column("changes", JSON, nullable=False),
    Column("author", String(256), nullable=False),
    Column("at", UtcDateTime, nullable=False),
)
