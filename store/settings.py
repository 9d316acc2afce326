"""The `store` section of tokenweir.yaml."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from base.durations import parse_duration


def _read_duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


Duration = Annotated[timedelta, BeforeValidator(_read_duration), Field(gt=timedelta(0))]


class StoreSettings(BaseModel):
    """Where telemetry is kept, and for how long. Ages are of event time, not of arrival."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str | None = Field(
        None,
        description="clickhouse://user:password@host:8123/database?cluster=name; unset: chdb in "
        "the data folder",
    )
    trace_window: Duration = Field(
        timedelta(minutes=10),
        description="spans of one logical request start within this of each other",
    )
    keep_spans: Duration = Field(timedelta(days=31), description="age of spans kept")
    keep_facts: Duration = Field(timedelta(days=31), description="age of request facts kept")
    keep_10s: Duration = Field(timedelta(days=2), description="age of ten-second rollups kept")
    keep_1m: Duration = Field(timedelta(days=31), description="age of one-minute rollups kept")
    keep_1h: Duration = Field(timedelta(days=400), description="age of hourly rollups kept")
