"""`GET /api/v1/requests` and `GET /api/v1/traces/{trace_id}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel

from base.durations import parse_instant
from base.errors import BadInput
from base.tenancy import OwnTenant, narrowed
from cost.prices import PriceBook
from dashboards.facts import MAX_LIMIT, Cursor, RequestQuery, instant, list_requests
from dashboards.traces import Span, Trace, read_trace
from store.engine import Engine


class RequestFact(BaseModel):
    """One logical request, counted once however many layers saw it; unknown is null."""

    request_id: str
    trace_id: str
    tenant: str | None
    route: str | None
    model: str | None
    replica: str | None
    user_id: str | None
    feature: str | None
    app_version: str | None
    priority: str | None
    outcome: str
    outcome_reason: str | None
    http_status: int | None
    start: str
    end: str
    duration_ms: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    queue_ms: float | None
    prefill_ms: float | None
    decode_ms: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    usage_source: str | None
    cost_usd: float | None
    cost_basis: str | None
    attempts: int
    streaming: bool | None
    finish_reason: str | None
    conversation_id: str | None
    task_id: str | None
    itl_p95_ms: float | None
    eval_name: str | None
    eval_score: float | None
    eval_label: str | None
    tool_calls: int | None
    tool_errors: int | None
    sources: list[str]


class RequestPage(BaseModel):
    """Newest first. `next_cursor` null: this is the last page."""

    requests: list[RequestFact]
    next_cursor: str | None


class SpanAnswer(BaseModel):
    """`tokens` are the span's own; `cost_usd` is what was spent in it and below it."""

    id: str
    parent: str | None
    name: str
    layer: str
    service: str
    instance: str
    start: str
    end: str
    duration_ms: float
    depth: int
    status: str
    status_message: str
    attributes: dict[str, Any]
    resource: dict[str, str]
    events: list[dict[str, Any]]
    tokens: dict[str, int | None]
    cost_usd: float | None


class TotalsAnswer(BaseModel):
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    requests: int
    conflicts: list[dict[str, Any]]


class TraceAnswer(BaseModel):
    trace_id: str
    spans: list[SpanAnswer]
    totals: TotalsAnswer
    requests: list[RequestFact]
    missing_parents: int


Text = Annotated[str | None, Query()]
Instant = Annotated[str | None, Query(description="RFC 3339 or unix seconds")]


def router(engine: Engine, book: PriceBook) -> APIRouter:
    """Serve requests and traces as the store has them."""
    api = APIRouter()

    @api.get("/api/v1/requests", tags=["requests"])
    def requests(
        own: OwnTenant,
        from_: Annotated[str | None, Query(alias="from", description="inclusive")] = None,
        to: Annotated[str | None, Query(description="exclusive")] = None,
        tenant: Text = None,
        route: Text = None,
        model: Text = None,
        replica: Text = None,
        outcome: Text = None,
        user_id: Text = None,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
        cursor: Text = None,
    ) -> RequestPage:
        """List requests by the time they began; follow `next_cursor` for the rest."""
        wanted = {
            "tenant": narrowed(tenant, own),
            "route": route,
            "model": model,
            "replica": replica,
            "outcome": outcome,
            "user_id": user_id,
        }
        try:
            query = RequestQuery(
                start=parse_instant(from_) if from_ else None,
                end=parse_instant(to) if to else None,
                filters={name: value for name, value in wanted.items() if value},
                cursor=Cursor.parse(cursor) if cursor else None,
                limit=limit,
            )
        except BadInput as error:
            raise HTTPException(400, str(error)) from error
        page = list_requests(engine, book, query)
        return RequestPage(
            requests=[_request(row) for row in page.requests], next_cursor=page.next_cursor
        )

    @api.get("/api/v1/traces/{trace_id}", tags=["traces"])
    def trace(trace_id: str, own: OwnTenant) -> TraceAnswer:
        """Show one trace: spans in tree order, and each request of it counted once."""
        try:
            found = read_trace(engine, book, trace_id)
        except BadInput as error:
            raise HTTPException(400, str(error)) from error
        if found is None or not _is_visible(found, own):
            raise HTTPException(
                404,
                f"no span of trace {trace_id} is stored: it was never sent here, is not ingested"
                " yet (GET /api/v1/ingest) or is past its retention",
            )
        totals = found.totals
        return TraceAnswer(
            trace_id=found.trace_id,
            spans=[_span(span) for span in found.spans],
            totals=TotalsAnswer(
                prompt_tokens=totals.prompt_tokens,
                completion_tokens=totals.completion_tokens,
                cost_usd=totals.cost_usd,
                requests=totals.requests,
                conflicts=[dict(conflict) for conflict in totals.conflicts],
            ),
            requests=[_request(row) for row in found.requests],
            missing_parents=found.missing_parents,
        )

    return api


def _is_visible(trace: Trace, own: str | None) -> bool:
    """Say whether one tenant may see a trace: if all of its requests are that tenant's."""
    return own is None or {each["tenant"] for each in trace.requests} == {own}


def _request(row: Mapping[str, Any]) -> RequestFact:
    return RequestFact.model_validate({name: row[name] for name in RequestFact.model_fields})


def _span(span: Span) -> SpanAnswer:
    return SpanAnswer(
        id=span.id,
        parent=span.parent,
        name=span.name,
        layer=span.layer,
        service=span.service,
        instance=span.instance,
        start=instant(span.start),
        end=instant(span.end),
        duration_ms=span.duration_ms,
        depth=span.depth,
        status=span.status,
        status_message=span.status_message,
        attributes=dict(span.attributes),
        resource=dict(span.resource),
        events=[{**event, "time": instant(event["time"])} for event in span.events],
        tokens=dict(span.tokens),
        cost_usd=span.cost_usd,
    )
