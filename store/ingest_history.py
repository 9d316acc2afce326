"""When spans were taken in, and by whom they were sent: read from the bookkeeping of batches.

A batch's `seq` is the millisecond in which it was begun, never before its spans were received: so
tables ordered by `seq` are read from the beginning of a window on only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from store.engine import Engine

_CLOCKS_APART = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class TakenIn:
    """Spans of one step: by the time of receipt, duplicates by the time they were stored."""

    start_s: int
    accepted: int
    late: int
    duplicate: int


@dataclass(frozen=True, slots=True)
class SenderActivity:
    """One sender in a window. `tenant` is the credential's; `last` None: nothing of it."""

    source: str
    tenant: str
    accepted: int
    late: int
    duplicate: int
    last: datetime | None


@dataclass(frozen=True, slots=True)
class UnknownName:
    """An attribute name without a meaning, and who sends it; `last` is a day."""

    name: str
    spans: int
    senders: tuple[str, ...]
    last: date


def taken_in(
    engine: Engine, start: datetime, end: datetime, step_s: int, tenant: str | None = None
) -> list[TakenIn]:
    """Count by steps of [start, end); steps in which nothing came are left out.

    With a tenant: of senders whose key is that tenant's, or of none.
    """
    rows = engine.rows(_STEPS.format(rows=_rows(tenant)), _params(start, end, tenant, step=step_s))
    return [TakenIn(row["step"], row["accepted"], row["late"], row["duplicate"]) for row in rows]


def activity(
    engine: Engine, start: datetime, end: datetime, tenant: str | None = None
) -> list[SenderActivity]:
    """Count per sender in [start, end)."""
    rows = engine.rows(_SENDERS.format(rows=_rows(tenant)), _params(start, end, tenant))
    return [
        SenderActivity(
            source=row["source"],
            tenant=row["tenant"],
            accepted=row["accepted"],
            late=row["late"],
            duplicate=row["duplicate"],
            last=row["last"] if row["batches"] else None,
        )
        for row in rows
    ]


def first_taken_in(engine: Engine) -> datetime | None:
    """Say when the first batch was received; before it nothing is known."""
    rows = engine.rows("SELECT received FROM ingest_batches ORDER BY seq LIMIT 1")
    first: datetime | None = rows[0]["received"] if rows else None
    return first


def unknown_names(
    engine: Engine, start: datetime, end: datetime, tenant: str | None = None
) -> list[UnknownName]:
    """List the names of the days of a window, the most frequent first; at most 1000."""
    rows = engine.rows(_NAMES.format(where=_of(tenant)), _params(start, end, tenant))
    return [
        UnknownName(row["name"], row["spans"], tuple(sorted(row["senders"])), row["last"])
        for row in rows
    ]


def _params(start: datetime, end: datetime, tenant: str | None, **more: Any) -> dict[str, Any]:
    first = max(0, int((start - _CLOCKS_APART).timestamp() * 1000))
    return {"from": start, "to": end, "seq": first, **more, **({"t": tenant} if tenant else {})}


def _rows(tenant: str | None) -> str:
    return _ROWS.format(where=_of(tenant))


def _of(tenant: str | None) -> str:
    return " AND tenant IN ({t:String}, '')" if tenant else ""


_ROWS = """
  SELECT received AS at, source, tenant, accepted, late, toUInt64(0) AS duplicate, 1 AS counted
  FROM ingest_batches
  WHERE seq >= {{seq:UInt64}} AND received >= toDateTime({{from:DateTime64(6, 'UTC')}}, 'UTC')
    AND received < {{to:DateTime64(6, 'UTC')}}{where}
  UNION ALL
  SELECT toDateTime(intDiv(seq, 1000), 'UTC') AS at, source, tenant, toUInt64(0), toUInt64(0),
    duplicate, 0
  FROM ingest_duplicates FINAL
  WHERE seq >= toUnixTimestamp64Milli({{from:DateTime64(6, 'UTC')}})
    AND seq < toUnixTimestamp64Milli({{to:DateTime64(6, 'UTC')}}) AND duplicate > 0{where}
"""

_STEPS = """
SELECT toInt64(intDiv(toUInt32(at), {{step:UInt32}}) * {{step:UInt32}}) AS step,
  toInt64(sum(accepted)) AS accepted, toInt64(sum(late)) AS late,
  toInt64(sum(duplicate)) AS duplicate
FROM ({rows}) GROUP BY step ORDER BY step
"""

_SENDERS = """
SELECT source, tenant, toInt64(sum(accepted)) AS accepted, toInt64(sum(late)) AS late,
  toInt64(sum(duplicate)) AS duplicate, maxIf(at, counted = 1) AS last,
  toInt64(sum(counted)) AS batches
FROM ({rows}) GROUP BY source, tenant ORDER BY source, tenant
"""

_NAMES = """
SELECT name, toInt64(sum(spans)) AS spans, groupUniqArray(20)(source) AS senders, max(day) AS last
FROM unknown_names
WHERE day >= toDate({{from:DateTime64(6, 'UTC')}})
  AND day <= toDate({{to:DateTime64(6, 'UTC')}}){where}
GROUP BY name ORDER BY spans DESC, name LIMIT 1000
"""
