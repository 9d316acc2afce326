"""The `collector` section of tokenweir.yaml."""

from __future__ import annotations

from pydantic import Field

from base.settings import Section
from collector.redact_rule import RedactRule


class CollectorSettings(Section):
    """How telemetry is let in, and how it is handed to the store."""

    max_request_bytes: int = Field(
        64 << 20, gt=0, description="largest request, after decompression"
    )
    memory_bytes: int = Field(
        256 << 20, gt=0, description="request bytes held at once; beyond it the answer is 503"
    )
    log_bytes: int = Field(
        16 << 30, gt=0, description="write-ahead log waiting for the store; beyond it 503"
    )
    segment_bytes: int = Field(64 << 20, gt=0, description="size of one log file")
    spans_per_s: float | None = Field(
        None, gt=0, description="limit per tenant of a credential; beyond it 429. None: no limit"
    )
    keep_content: bool = Field(
        False, description="keep what people and models said (the vocabulary's `content`)"
    )
    redact: tuple[RedactRule, ...] = Field((), description="what else of spans is not kept")
    batch_spans: int = Field(50_000, gt=0, description="most spans inserted at once")
    batch_s: float = Field(1.0, ge=0, description="longest wait for a batch to fill")
