"""The `slo` section of tokenweir.yaml."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from base.durations import parse_duration


def _read_duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


Duration = Annotated[timedelta, BeforeValidator(_read_duration), Field(gt=timedelta(0))]


class SloSettings(BaseModel):
    """How SLOs are judged; what they are is in SLO documents."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    evaluate_every: Duration = Field(
        timedelta(seconds=5), description="how often verdicts are made"
    )
    stale_after: Duration = Field(
        timedelta(minutes=2), description="silence of every source after which verdicts are frozen"
    )
    keep_10s: Duration = Field(timedelta(days=2), description="age of the ten-second counts kept")
    keep_1m: Duration = Field(timedelta(days=31), description="age of the one-minute counts kept")
    keep_1h: Duration = Field(timedelta(days=400), description="age of the hourly counts kept")
