"""The `slo` section of tokenweir.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from base.settings import PositiveDuration as Duration
from base.settings import Section


class PrometheusSettings(Section):
    """A server that speaks Prometheus' HTTP API. What is secret comes from files."""

    url: str = Field(description="base address, before /api/v1")
    headers: Mapping[str, str] = Field({}, description="sent with each question, not for secrets")
    bearer_file: Path | None = Field(None, description="a file that holds a bearer token")
    username: str | None = Field(None, description="name for basic authentication")
    password_file: Path | None = Field(None, description="a file that holds its password")
    timeout: Duration = Field(timedelta(seconds=15), description="longest wait for an answer")
    poll_every: Duration = Field(timedelta(seconds=15), description="how often it is asked")
    late: Duration = Field(
        timedelta(minutes=5), description="how late a sample may appear and still be counted"
    )
    stale_after: Duration | None = Field(
        None, description="silence after which its SLOs are frozen; unset: slo.stale_after"
    )
    replica_labels: tuple[str, ...] = Field(
        (), description="labels that tell apart servers that scrape the same targets"
    )

    @field_validator("url")
    @classmethod
    def _http(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("url must start with http:// or https://")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _one_credential(self) -> PrometheusSettings:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.username is not None and self.bearer_file is not None:
            raise ValueError("give bearer_file, or username and password_file, not both")
        if any(name.lower() == "authorization" for name in self.headers):
            raise ValueError("authorization is a secret: use bearer_file or password_file")
        return self


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
    prometheus: Mapping[str, PrometheusSettings] = Field(
        {}, description="servers that SLO documents may name"
    )
