"""The `store` section of tokenweir.yaml."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field, SecretStr

from base.settings import PositiveDuration as Duration
from base.settings import Section


class StoreSettings(Section):
    """Where telemetry is kept, and for how long. Ages are of event time, not of arrival."""

    url: SecretStr | None = Field(
        None,
        description="clickhouse://user:password@host:8123/database?cluster=name; unset: chdb in "
        "the data folder",
    )
    url_file: Path | None = Field(None, description="a file that holds the url")
    trace_window: Duration = Field(
        timedelta(minutes=10),
        description="spans of one logical request start within this of each other",
    )
    keep_spans: Duration = Field(timedelta(days=31), description="age of spans kept")
    keep_facts: Duration = Field(timedelta(days=31), description="age of request facts kept")
    keep_10s: Duration = Field(timedelta(days=2), description="age of ten-second rollups kept")
    keep_1m: Duration = Field(timedelta(days=31), description="age of one-minute rollups kept")
    keep_1h: Duration = Field(timedelta(days=400), description="age of hourly rollups kept")
