"""A day of intake: two applications, one that lags, refusals, a dead letter and unknown names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from base.durations import format_instant
from collector.dead_letter import DeadLetter
from collector.pipeline import Lag, PipelineStatus
from collector.wal_records import Position
from dashboards.intake import IntakePorts
from store.engine import Engine

MIB = 1 << 20
CALM = PipelineStatus(Position(1, 0), 1, 10, 1000, 0, 0, None)
NAMES = {"gen_ai.request.mood": 4200, "llm.vendor.tier": 310}


@dataclass
class FakePipeline:
    """A pipeline that stands as it is told."""

    now: Lag = field(default_factory=lambda: Lag(0, None))
    said: PipelineStatus = CALM

    def lag(self) -> Lag:
        return self.now

    def status(self) -> PipelineStatus:
        return self.said


def seed_intake(engine: Engine, now: datetime, hours: int = 24) -> None:
    """Fill the bookkeeping of batches: one a minute and sender, the last half a minute ago."""
    ends = [now - timedelta(seconds=30) - timedelta(minutes=m) for m in range(hours * 60)]
    rows: list[dict[str, Any]] = []
    for minute, at in enumerate(ends):
        busy = 1 + (minute // 60) % 5
        for source, tenant, spans in (("key:app", "acme", 900), ("key:jobs", "", 300)):
            if tenant or minute > 12:  # jobs fell silent
                rows.append(_batch(at, source, tenant, spans * busy, late=minute % 7))
    insert(engine, rows)
    engine.execute(
        "INSERT INTO ingest_duplicates SELECT seq, source, tenant, intDiv(accepted, 50) AS d"
        " FROM ingest_batches WHERE tenant = 'acme' AND seq % 5 = 0"
    )
    day = f"toDate('{now:%Y-%m-%d}')"
    for name, spans in NAMES.items():
        engine.execute(
            f"INSERT INTO unknown_names VALUES ({day}, 'key:app', 'acme', '{name}', {spans})"
        )


def insert(engine: Engine, rows: Sequence[dict[str, Any]]) -> None:
    engine.insert_arrow("ingest_batches", pa.Table.from_pylist(list(rows), _SCHEMA))


def _batch(at: datetime, source: str, tenant: str, accepted: int, late: int = 0) -> dict[str, Any]:
    return {
        "seq": int(at.timestamp() * 1000) + 400, "source": source, "tenant": tenant,
        "received": int(at.timestamp()), "accepted": accepted, "late": late,
    }  # fmt: skip


_SCHEMA = pa.schema(
    [
        ("seq", pa.uint64()), ("source", pa.string()), ("tenant", pa.string()),
        ("received", pa.uint32()), ("accepted", pa.uint64()), ("late", pa.uint64()),
    ]
)  # fmt: skip


def a_status(now: datetime, *, refused_s: int = 20, **changes: Any) -> dict[str, Any]:
    """A receiver's report of this second, started six hours ago."""
    last = format_instant(now - timedelta(seconds=refused_s))
    early = format_instant(now - timedelta(hours=2))

    def sender(source: str, tenant: str | None, spans: int, **more: Any) -> dict[str, Any]:
        given = {
            "source": source, "tenant": tenant, "requests": 10, "spans": spans, "bytes": 1000,
            "rejected_spans": 0, "refused": {}, "last": last, "refused_last": {},
        }  # fmt: skip
        return given | more

    return {
        "at": format_instant(now),
        "started": format_instant(now - timedelta(hours=6)),
        "otlp_http": "http://127.0.0.1:4318",
        "otlp_grpc": "127.0.0.1:4317",
        "log": {"waiting_bytes": 0, "error": None},
        "ack_ms": {"p50": 2, "p99": 10},
        "sources": [
            sender(
                "key:app", "acme", 9000, rejected_spans=3, refused={"rate_limited": 41},
                refused_last={"rate_limited": last},
            ),
            sender("key:jobs", None, 800, last=early),
            sender(
                "unauthenticated", None, 0, last=None,
                refused={"unauthenticated": 12, "no_such_signal": 5},
                refused_last={"unauthenticated": early, "no_such_signal": early},
            ),
        ],
    } | changes  # fmt: skip


def a_letter(now: datetime, number: int = 1, **changes: Any) -> DeadLetter:
    given: dict[str, Any] = {
        "file": Path(f"/data/dead-letter/000000000001-{number:010d}.binpb"),
        "reason": "Code: 27. Cannot parse input: expected a message of type Span",
        "tenant": "acme",
        "source": "key:app",
        "spans": 120,
        "received": now - timedelta(minutes=number),
        "size_bytes": 48_000,
    }
    return DeadLetter(**{**given, **changes})


def ports(now: datetime, pipeline: FakePipeline | None = None, **changes: Any) -> IntakePorts:
    given: dict[str, Any] = {
        "status": lambda: a_status(now),
        "pipeline": pipeline or FakePipeline(),
        "letters": lambda: [a_letter(now, 2), a_letter(now)],
        "log_bytes": 16 << 30,
    }
    return IntakePorts(**{**given, **changes})
