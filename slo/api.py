"""REST: verdicts as of any instant, and the counts behind them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from base.clock import Clock
from base.durations import format_duration, format_instant, parse_duration, parse_instant
from base.errors import BadInput
from base.tenancy import OwnTenant
from slo.evaluator import Evaluator
from slo.series import read_series
from slo.targets import targets_of
from slo.targets_body import AllTargetsBody, targets_body
from slo.tenant_view import visible_to
from slo.verdict_body import SloBody, body_of
from store.engine import Engine


class SlosBody(BaseModel):
    """All verdicts as of `now`."""

    now: str
    slos: list[SloBody]


class SeriesBody(BaseModel):
    """One group; steps without requests are left out."""

    group: dict[str, str]
    objective: float
    at: list[str]
    good: list[int]
    bad: list[int]
    excluded: list[int]


class NamedSeriesBody(BaseModel):
    """Counts per step of one SLO."""

    name: str
    objective: float
    window: str
    unit: str = Field(description="what good, bad and excluded count, as in /api/v1/slos")
    step: str
    series: list[SeriesBody]


def router(engine: Engine, evaluator: Evaluator, clock: Clock) -> APIRouter:
    """Make the endpoints; mount it where BadInput becomes 400."""
    routes = APIRouter(prefix="/api/v1/slos", tags=["slo"])

    @routes.get("")
    def slos(
        own: OwnTenant,
        now: Annotated[str | None, Query(description="RFC 3339 or unix seconds")] = None,
    ) -> SlosBody:
        moment = _instant(now) if now else clock.now()
        verdicts = evaluator.evaluate(moment)
        shown = verdicts if own is None else visible_to(own, verdicts)
        return SlosBody(now=format_instant(moment), slos=[body_of(each) for each in shown])

    @routes.get("/targets")
    def targets(
        prompt_tokens: Annotated[int | None, Query(ge=0)] = None,
        cached_tokens: Annotated[int | None, Query(ge=0)] = None,
        completion_tokens: Annotated[int | None, Query(ge=0)] = None,
    ) -> AllTargetsBody:
        """List the latency limits of every SLO that has some, with a scheduler's headers."""
        asked = {
            "prompt_tokens": prompt_tokens,
            "cached_tokens": cached_tokens,
            "completion_tokens": completion_tokens,
        }
        tokens = {kind: count for kind, count in asked.items() if count is not None}
        found = (targets_of(slo) for slo in evaluator.slos)
        return AllTargetsBody(targets=[targets_body(each, tokens) for each in found if each.limits])

    @routes.get("/{name}/series")
    def series(
        name: str,
        own: OwnTenant,
        start: Annotated[str, Query(alias="from")],
        end: Annotated[str, Query(alias="to")],
        step: str = "1h",
    ) -> NamedSeriesBody:
        slo = next((each for each in evaluator.slos if each.name == name), None)
        if any(each.name == name for each in evaluator.costs):
            raise HTTPException(
                404, f"{name!r} is about cost, which has no good and bad: ask GET /api/v1/cost"
            )
        if slo is None or (own is not None and "tenant" not in slo.group_by):
            shown = (s for s in evaluator.slos if own is None or "tenant" in s.group_by)
            known = ", ".join(each.name for each in shown) or "none"
            raise HTTPException(404, f"no SLO is named {name!r}; there are: {known}")
        try:
            span = parse_duration(step)
            first, last = _instant(start), _instant(end)
            if slo.slices is not None:  # only slices that are over are judged
                last = min(last, clock.now())
            excluded = evaluator.excluded([slo], first, last)
            found = read_series(engine, slo, first, last, span, excluded)
        except BadInput as error:
            raise HTTPException(400, str(error)) from error
        return NamedSeriesBody(
            name=slo.name,
            objective=slo.objective,
            window=format_duration(slo.window),
            unit=slo.unit,
            step=format_duration(span),
            series=[
                SeriesBody(
                    group=each.group,
                    objective=slo.for_group(tuple(each.group.values())).objective,
                    at=[format_instant(moment) for moment in each.at],
                    good=each.good,
                    bad=each.bad,
                    excluded=each.excluded,
                )
                for each in found
                if own is None or each.group["tenant"] == own
            ],
        )

    return routes


def _instant(text: str) -> Any:
    try:
        return parse_instant(text)
    except BadInput as error:
        raise HTTPException(400, str(error)) from error
