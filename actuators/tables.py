"""Control tables of the loop: leases, the audit chain, what targets were told, who said stop."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from base.db import UtcDateTime, metadata

leases = Table(
    "actuator_leases",
    metadata,
    Column("id", String(26), primary_key=True),
    # Target, subject and kind while the lease is open, NULL afterwards: the database itself
    # refuses a second open lease on a lever.
    Column("open_key", String(512), unique=True),
    Column("target", String(256), nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("cause", String(256), nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False, index=True),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("closed_at", UtcDateTime, index=True),
    Column("document", JSON, nullable=False),
)

audit = Table(
    "actuator_audit",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", UtcDateTime, nullable=False, index=True),
    Column("lease_id", String(26), index=True),
    Column("lever", String(512), nullable=False),
    Column("step", String(32), nullable=False),
    Column("actor", String(128), nullable=False),
    Column("detail", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    # A chain can't fork: two writers that saw the same end can't both continue it.
    UniqueConstraint("previous"),
)

policies = Table(
    "actuator_policies",
    metadata,
    Column("gateway", String(128), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("rules", JSON, nullable=False),
    Column("issued_at", UtcDateTime, nullable=False),
)

written = Table(
    "actuator_written",
    metadata,
    Column("fleet", String(128), primary_key=True),
    Column("desired", Integer, nullable=False),
    Column("lease_id", String(26)),
    Column("at", UtcDateTime, nullable=False),
)

kill_switch = Table(
    "actuator_kill_switch",
    metadata,
    Column("id", Integer, primary_key=True),  # always 1
    Column("on", Boolean, nullable=False),
    Column("by", String(128), nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

holds = Table(
    "actuator_holds",
    metadata,
    Column("target", String(256), primary_key=True),
    Column("by", String(128), nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("until", UtcDateTime, nullable=False),
)
