"""Requests, one row each: filtered, newest first, paged by a cursor that never skips or repeats."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from base.errors import BadInput
from cost.prices import PriceBook
from cost.requests import Run, price_requests
from dashboards.state import OUTCOMES
from store.engine import Engine

FILTERS = ("tenant", "route", "model", "replica", "outcome", "user_id")
TEXTS = ("tenant", "route", "model", "replica", "user_id", "feature", "app_version", "priority")
MAX_LIMIT = 1000

_COLUMNS = """
  lower(hex(trace_id)) AS trace, request_id, tenant, route, model, replica, user_id, feature,
  app_version, priority, outcome, outcome_reason, http_status, start, end,
  toUnixTimestamp64Nano(start) AS start_ns, duration_ms, ttft_ms, tpot_ms, queue_ms, prefill_ms,
  decode_ms, engine_s, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens,
  usage_source, reported_cost_usd, attempts, streaming, finish_reason, sources, conflicts,
  conversation_id, task_id, itl_p95_ms, eval_name, eval_score, eval_label, tool_calls, tool_errors
"""
# How far back to look for a page before looking further: a page of the newest requests should
# not read a month of facts.
_STEPS = (timedelta(hours=1), timedelta(days=1), timedelta(days=31))


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last request of a page; the next page begins after it."""

    start_ns: int
    trace: str
    request_id: str

    def text(self) -> str:
        raw = f"{self.start_ns} {self.trace} {self.request_id}".encode()
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
            start, trace, request = raw.split(" ")
            began = struct.unpack("<q", struct.pack("<q", int(start)))[0]
            return cls(began, bytes.fromhex(trace).hex(), request)
        except (ValueError, binascii.Error, struct.error) as error:
            raise BadInput(f"cursor {text!r} is not one of ours: start again without it") from error


@dataclass(frozen=True, slots=True)
class RequestQuery:
    """Which requests: half-open [start, end), each filter an exact value.

    An outcome that does not exist is BadInput: it would look like a quiet service.
    """

    start: datetime | None = None
    end: datetime | None = None
    filters: Mapping[str, str] | None = None
    cursor: Cursor | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        outcome = (self.filters or {}).get("outcome")
        if outcome is not None and outcome not in OUTCOMES:
            raise BadInput(f"outcome {outcome!r} is not one of {', '.join(OUTCOMES)}")


@dataclass(frozen=True, slots=True)
class Page:
    """Requests as the API gives them, and where the next page begins."""

    requests: list[dict[str, Any]]
    next_cursor: str | None


def list_requests(engine: Engine, book: PriceBook, query: RequestQuery) -> Page:
    """Read one page of requests with their costs, newest first."""
    rows: list[dict[str, Any]] = []
    for since in _searches(engine, query):
        rows = _read(engine, query, since)
        if len(rows) > query.limit:
            break
    more = len(rows) > query.limit
    rows = rows[: query.limit]
    last = rows[-1] if rows else None
    cursor = Cursor(last["start_ns"], last["trace"], last["request_id"]) if last and more else None
    return Page(as_requests(engine, book, rows), cursor.text() if cursor else None)


def facts_of_trace(engine: Engine, book: PriceBook, trace_id: str) -> list[dict[str, Any]]:
    """Read the requests of one trace, oldest first, in the same shape."""
    sql = f"""SELECT {_COLUMNS} FROM facts FINAL
    WHERE trace_id = unhex({{trace:String}}) ORDER BY start, request_id LIMIT 10000"""
    return as_requests(engine, book, engine.rows(sql, {"trace": trace_id}))


def as_requests(
    engine: Engine, book: PriceBook, rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Turn rows of facts into API objects; what is unknown is None."""
    runs = [Run(**{name: row[name] for name in Run.__slots__}) for row in rows]
    costs = price_requests(engine, book, runs)
    out = []
    for row, cost in zip(rows, costs, strict=True):
        fields = {name: value for name, value in row.items() if name not in {"start_ns", "trace"}}
        fields |= {name: row[name] or None for name in (*TEXTS, *_MORE_TEXTS)}
        fields["trace_id"] = row["trace"]
        fields["start"], fields["end"] = instant(row["start"]), instant(row["end"])
        fields["cost_usd"], fields["cost_basis"] = cost.usd, cost.basis
        out.append(fields)
    return out


_MORE_TEXTS = (
    "outcome_reason", "usage_source", "finish_reason", "conversation_id", "task_id", "eval_name",
    "eval_label",
)  # fmt: skip


def instant(moment: datetime) -> str:
    """Write RFC 3339 with microseconds: requests are told apart by less than a millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _searches(engine: Engine, query: RequestQuery) -> Iterator[datetime | None]:
    """Yield ever earlier starts to search from, until the query's own."""
    if query.cursor is not None:
        newest = _EPOCH + timedelta(microseconds=query.cursor.start_ns // 1000)
    else:
        newest = _newest(engine, query.end)
    for step in _STEPS:
        since = newest - step
        if query.start is None or since > query.start:
            yield since
    yield query.start


def _newest(engine: Engine, before: datetime | None) -> datetime:
    where = "" if before is None else "WHERE start < fromUnixTimestamp64Nano({to:Int64}, 'UTC')"
    params = {} if before is None else {"to": _ns(before)}
    rows = engine.rows(f"SELECT max(start) AS newest FROM facts {where}", params)
    newest: datetime = rows[0]["newest"]
    return max(newest, _EPOCH + _STEPS[-1])


def _read(engine: Engine, query: RequestQuery, since: datetime | None) -> list[dict[str, Any]]:
    where = ["1"]
    params: dict[str, Any] = {"limit": query.limit + 1}
    if since is not None:
        where.append("start >= fromUnixTimestamp64Nano({from:Int64}, 'UTC')")
        params["from"] = _ns(since)
    if query.end is not None:
        where.append("start < fromUnixTimestamp64Nano({to:Int64}, 'UTC')")
        params["to"] = _ns(query.end)
    for name, value in (query.filters or {}).items():
        if name not in FILTERS:
            raise BadInput(f"{name!r} is not a filter: use {', '.join(FILTERS)}")
        column = "toString(outcome)" if name == "outcome" else name
        where.append(f"{column} = {{f_{name}:String}}")
        params[f"f_{name}"] = value
    if query.cursor is not None:
        where.append("start <= fromUnixTimestamp64Nano({c_start:Int64}, 'UTC')")
        where.append(
            "(toUnixTimestamp64Nano(start), lower(hex(trace_id)), request_id)"
            " < ({c_start:Int64}, {c_trace:String}, {c_request:String})"
        )
        params |= {
            "c_start": query.cursor.start_ns,
            "c_trace": query.cursor.trace,
            "c_request": query.cursor.request_id,
        }
    sql = f"""SELECT {_COLUMNS} FROM facts FINAL WHERE {" AND ".join(where)}
    ORDER BY start_ns DESC, trace DESC, request_id DESC LIMIT {{limit:UInt32}}"""
    return engine.rows(sql, params)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ns(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
