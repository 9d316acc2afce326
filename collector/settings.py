"""The `collector` section of tokenweir.yaml."""

from __future__ import annotations

from pydantic import Field

from base.settings import Section


class CollectorSettings(Section):
    """How telemetry is let in, and how it is handed to the store."""

    otlp_grpc: str = Field("127.0.0.1:4317", description="HOST:PORT of OTLP/gRPC; port 0: any")
    otlp_http: str = Field("127.0.0.1:4318", description="HOST:PORT of OTLP/HTTP; port 0: any")
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
    batch_spans: int = Field(50_000, gt=0, description="most spans inserted at once")
    batch_s: float = Field(1.0, ge=0, description="longest wait for a batch to fill")
