"""The `slo` section of tokenweir.yaml."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from base.settings import PositiveDuration as Duration
from base.settings import Section


class SloSettings(Section):
    """How SLOs are judged; what they are is in SLO documents."""

    evaluate_every: Duration = Field(
        timedelta(seconds=5), description="how often verdicts are made"
    )
    stale_after: Duration = Field(
        timedelta(minutes=2), description="silence of every source after which verdicts are frozen"
    )
    coverage_floor: float = Field(
        0.9,
        ge=0,
        le=1,
        description="share of a window in which a source must be heard for a tier to be judged",
    )
    keep_10s: Duration = Field(timedelta(days=2), description="age of the ten-second counts kept")
    keep_1m: Duration = Field(timedelta(days=31), description="age of the one-minute counts kept")
    keep_1h: Duration = Field(timedelta(days=400), description="age of the hourly counts kept")
