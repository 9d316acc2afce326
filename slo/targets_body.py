"""What SLOs ask of schedulers and autoscalers, as the API shows it."""

from __future__ import annotations

from pydantic import BaseModel, Field

from slo.targets import Targets


class LimitBody(BaseModel):
    """Milliseconds at most: a base, and as much for each token of a kind."""

    base_ms: float
    per_token_ms: dict[str, float]


class ObjectiveBody(BaseModel):
    """Another objective for some of the requests."""

    match: dict[str, list[str]] = Field(description="requests it is for, by column")
    objective: float


class TargetsBody(BaseModel):
    """What one SLO asks of schedulers and autoscalers."""

    slo: str
    objective: float
    match: dict[str, list[str]] = Field(description="requests they are for, by column")
    is_exact: bool = Field(description="false: the SLO asks for more than `match` can say")
    limits: dict[str, LimitBody] = Field(description="by metric: ttft_ms, tpot_ms, ...")
    headers: dict[str, str] = Field(
        description="of a request with the token counts asked about, for a scheduler"
    )
    overrides: list[ObjectiveBody] = Field(description="the first that matches holds")


class AllTargetsBody(BaseModel):
    targets: list[TargetsBody]


def targets_body(each: Targets, tokens: dict[str, int]) -> TargetsBody:
    return TargetsBody(
        slo=each.slo,
        objective=each.objective,
        match={column: list(values) for column, values in each.match.items()},
        is_exact=each.is_exact,
        limits={
            metric: LimitBody(base_ms=limit.base_ms, per_token_ms=dict(limit.per_token_ms))
            for metric, limit in each.limits.items()
        },
        headers=each.headers(tokens),
        overrides=[
            ObjectiveBody(match={k: list(v) for k, v in match.items()}, objective=objective)
            for match, objective in each.overrides
        ],
    )
