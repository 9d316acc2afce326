"""Tables of alerts: state, episodes, what each receiver was told, the outbox, silences, acks."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from base.db import UtcDateTime, metadata

states = Table(
    "alert_states",
    metadata,
    Column("fingerprint", String(16), primary_key=True),
    Column("alertname", String(128), nullable=False),
    Column("slo", String(256), nullable=False),
    Column("group_labels", JSON, nullable=False),
    Column("condition", String(16), nullable=False),
    Column("since", UtcDateTime),
    Column("severity", String(16)),
    Column("tier", String(128), nullable=False),
    Column("episode", String(26)),
    Column("fired_at", UtcDateTime),
    Column("resolved_at", UtcDateTime),
    Column("hold_for_s", Float, nullable=False),
    Column("keep_for_s", Float, nullable=False),
    Column("easing_since", UtcDateTime),
    Column("frozen_since", UtcDateTime),
    Column("frozen_reason", Text, nullable=False),
    Column("facts", JSON, nullable=False),
    Column("evaluated_at", UtcDateTime, nullable=False),
)

episodes = Table(
    "alert_episodes",
    metadata,
    Column("episode", String(26), primary_key=True),
    Column("fingerprint", String(16), nullable=False, index=True),
    Column("alertname", String(128), nullable=False),
    Column("slo", String(256), nullable=False),
    Column("group_labels", JSON, nullable=False),
    Column("severity", String(16), nullable=False),
    Column("peak_severity", String(16), nullable=False),
    Column("fired_at", UtcDateTime, nullable=False, index=True),
    Column("resolved_at", UtcDateTime),
    Column("facts", JSON, nullable=False),
)

timeline = Table(
    "alert_timeline",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("episode", String(26), nullable=False, index=True),
    Column("at", UtcDateTime, nullable=False),
    Column("what", String(32), nullable=False),
    Column("severity", String(16)),
    Column("by", String(256), nullable=False),
    Column("note", Text, nullable=False),
)

told = Table(
    "alert_told",
    metadata,
    Column("receiver", String(128), primary_key=True),
    Column("group_key", String(512), primary_key=True),
    Column("firing", JSON, nullable=False),  # {episode: severity} as last delivered
    Column("maybe", JSON, nullable=False),  # {episode: severity} tried, outcome unknown
    Column("refused", JSON, nullable=False),  # {episode: severity} refused for good
    Column("refused_ends", JSON, nullable=False),  # [episode] whose resolve was refused
    Column("resolved", JSON, nullable=False),  # [episode] in the last delivery
    Column("at", UtcDateTime),
)

outbox = Table(
    "alert_outbox",
    metadata,
    Column("id", String(26), primary_key=True),  # the webhook-id, the same on every attempt
    Column("receiver", String(128), nullable=False),
    Column("group_key", String(512), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("firing", JSON, nullable=False),
    Column("resolved", JSON, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("status", String(16), nullable=False),
    Column("status_reason", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("due_at", UtcDateTime, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("maybe_heard", Boolean, nullable=False),
    Column("lease", String(64)),
    Column("lease_until", UtcDateTime),
    Column("last_status", Integer),
    Column("settled_at", UtcDateTime),
    Index("ix_alert_outbox_due", "receiver", "status", "due_at"),
    Index("ix_alert_outbox_group", "group_key", "created_at"),
    Index("ix_alert_outbox_settled", "status", "settled_at"),
    # One message in the air per receiver and group: order cannot be lost, by construction.
    Index(
        "uq_alert_outbox_live",
        "receiver",
        "group_key",
        unique=True,
        sqlite_where=text("status IN ('queued', 'sending')"),
        postgresql_where=text("status IN ('queued', 'sending')"),
    ),
)

endpoints = Table(
    "alert_endpoints",
    metadata,
    Column("receiver", String(128), primary_key=True),
    Column("config", String(64), nullable=False),
    Column("failures", Integer, nullable=False),
    Column("not_before", UtcDateTime),  # a circuit's next probe, or Retry-After
    Column("broken_since", UtcDateTime),
    Column("broken_reason", Text, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("delivered_at", UtcDateTime),
)

silences = Table(
    "alert_silences",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("matchers", JSON, nullable=False),
    Column("starts_at", UtcDateTime, nullable=False),
    Column("ends_at", UtcDateTime, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("comment", Text, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)

acks = Table(
    "alert_acks",
    metadata,
    Column("episode", String(26), primary_key=True),
    Column("by", String(256), nullable=False),
    Column("note", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("until", UtcDateTime),
)
