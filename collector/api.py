"""`GET /api/v1/ingest`: what came in, what did not, and how far behind the store is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from base.clock import Clock
from base.durations import format_instant, parse_instant
from base.errors import BadInput
from collector.counters import read_status
from collector.dead_letter import DeadLetter, DeadLetters
from collector.pipeline import Lag, PipelineStatus
from store.ingest_stats import SenderCounts
from store.sources import SourceState

RECEIVER_SILENT_AFTER = timedelta(seconds=10)


class PipelineView(Protocol):
    """The pipeline, as far as it is shown."""

    def lag(self) -> Lag: ...
    def status(self) -> PipelineStatus: ...


class SourceBody(BaseModel):
    """One sender: the credential's name and its tenant; null where the data name their tenants."""

    source: str
    tenant: str | None
    accepted: int = Field(description="spans in the store, duplicates included")
    duplicate: int = Field(description="spans that were in the store already")
    late: int = Field(description="spans that arrived long after they ended; counted all the same")
    unknown_names: dict[str, int] = Field(description="gen_ai.* and llm.* names without a meaning")
    acknowledged: int = Field(description="spans acknowledged since the receiver started")
    rejected: int = Field(description="invalid spans left out, since the receiver started")
    refused: dict[str, int] = Field(description="requests by reason, since the receiver started")
    dead_lettered: int = Field(description="requests set aside")


class LogBody(BaseModel):
    """The write-ahead log between receiver and store."""

    lag_bytes: int
    lag_s: float | None = Field(description="age of the oldest request that waits; null: none does")
    batches: int
    failures: int
    error: str | None = Field(description="why the store does not take the present batch")


class DeadLetterBody(BaseModel):
    file: str
    reason: str
    source: str
    tenant: str | None
    spans: int
    received: str


class ReceiverBody(BaseModel):
    """The receiver's own state; `up` is false when it has not reported for a while."""

    up: bool
    at: str | None
    otlp_http: str | None
    otlp_grpc: str | None
    ack_p50_ms: int | None = Field(description="upper bound of the histogram's bucket")
    ack_p99_ms: int | None
    disk_error: str | None


class WatermarkBody(BaseModel):
    layer: str
    service: str
    instance: str
    first: str
    last: str


class IngestBody(BaseModel):
    now: str
    sources: list[SourceBody]
    log: LogBody
    receiver: ReceiverBody
    dead_letters: list[DeadLetterBody] = Field(description="the newest 100")
    watermarks: list[WatermarkBody]


def router(
    *,
    receiver_status: Path,
    pipeline: PipelineView,
    dead_letters: DeadLetters,
    stored: Callable[[], Sequence[SenderCounts]],
    watermarks: Callable[[datetime], Sequence[SourceState]],
    clock: Clock,
) -> APIRouter:
    """Serve it. `receiver_status` is the file that the receiver process writes."""
    api = APIRouter(tags=["ingest"])

    @api.get("/api/v1/ingest")
    def ingest(
        now: Annotated[str | None, Query(description="RFC 3339 or unix seconds")] = None,
    ) -> IngestBody:
        """Count what came in per source and tenant, and say how far the data are complete."""
        try:
            at = parse_instant(now) if now else clock.now()
        except BadInput as error:
            raise HTTPException(400, str(error)) from error
        status = read_status(receiver_status)
        letters = dead_letters.all()
        return IngestBody(
            now=format_instant(at),
            sources=_sources(stored(), status, letters),
            log=_log(pipeline),
            receiver=_receiver(status, clock.now()),
            dead_letters=[_letter(letter) for letter in letters[-100:]],
            watermarks=[_watermark(mark) for mark in watermarks(at)],
        )

    return api


def _sources(
    stored: Sequence[SenderCounts], status: Mapping[str, Any] | None, letters: Sequence[DeadLetter]
) -> list[SourceBody]:
    """Join what receiver, store and dead letters say of a sender."""
    in_store = {(each.source, each.tenant): each for each in stored}
    received = {
        (each["source"], each["tenant"] or ""): each for each in (status or {}).get("sources", [])
    }
    dead = [(letter.source, letter.tenant) for letter in letters]
    bodies = []
    for source, tenant in sorted({*in_store, *received, *dead}):
        counts = in_store.get((source, tenant))
        seen = received.get((source, tenant), {})
        bodies.append(
            SourceBody(
                source=source,
                tenant=tenant or None,
                accepted=counts.accepted if counts else 0,
                duplicate=counts.duplicate if counts else 0,
                late=counts.late if counts else 0,
                unknown_names=dict(counts.unknown_names) if counts else {},
                acknowledged=seen.get("spans", 0),
                rejected=seen.get("rejected_spans", 0),
                refused=seen.get("refused", {}),
                dead_lettered=dead.count((source, tenant)),
            )
        )
    return bodies


def _log(pipeline: PipelineView) -> LogBody:
    lag, status = pipeline.lag(), pipeline.status()
    return LogBody(
        lag_bytes=lag.bytes,
        lag_s=None if lag.age is None else lag.age.total_seconds(),
        batches=status.batches,
        failures=status.failures,
        error=status.error,
    )


def _receiver(status: Mapping[str, Any] | None, now: datetime) -> ReceiverBody:
    if status is None:
        return ReceiverBody(
            up=False,
            at=None,
            otlp_http=None,
            otlp_grpc=None,
            ack_p50_ms=None,
            ack_p99_ms=None,
            disk_error=None,
        )
    return ReceiverBody(
        up=now - parse_instant(status["at"]) < RECEIVER_SILENT_AFTER,
        at=status["at"],
        otlp_http=status["otlp_http"],
        otlp_grpc=status["otlp_grpc"],
        ack_p50_ms=status["ack_ms"]["p50"],
        ack_p99_ms=status["ack_ms"]["p99"],
        disk_error=status["log"]["error"],
    )


def _letter(letter: DeadLetter) -> DeadLetterBody:
    return DeadLetterBody(
        file=letter.file.name,
        reason=letter.reason,
        source=letter.source,
        tenant=letter.tenant or None,
        spans=letter.spans,
        received=format_instant(letter.received),
    )


def _watermark(mark: SourceState) -> WatermarkBody:
    return WatermarkBody(
        layer=mark.layer,
        service=mark.service,
        instance=mark.instance,
        first=format_instant(mark.first),
        last=format_instant(mark.last),
    )
