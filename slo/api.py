"""REST: verdicts as of any instant, and the counts behind them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from base.clock import Clock
from base.durations import format_duration, format_instant, parse_duration, parse_instant
from base.errors import BadInput
from base.tenancy import OwnTenant
from slo.evaluator import Evaluator
from slo.forecast import Forecast
from slo.series import read_series
from slo.slices import Slices
from slo.targets import Targets, targets_of
from slo.tenant_view import visible_to
from slo.verdict import Causes, CostVerdict, PeriodVerdict, Spend, TierVerdict, Verdict
from store.engine import Engine


class TierBody(BaseModel):
    """One alert tier; a burn of null means that the window has no traffic."""

    name: str
    severity: str
    factor: float
    long: str
    short: str
    long_burn: float | None
    short_burn: float | None = Field(description="of the newest requests, further back if few")
    burning: bool
    known: bool = Field(description="false: too little was heard to say whether it burns")
    hold: str = Field(description="an incident is over when the tier kept quiet so long")


class ForecastBody(BaseModel):
    """When the budget will be spent if all goes on; null beyond a window, or when it is spent."""

    at: str | None = Field(description="median")
    earliest: str | None = Field(description="where the 80 % interval begins")
    latest: str | None = Field(description="where it ends")
    says: str


class SpendBody(BaseModel):
    """Dollars since an instant, and the units that came of them."""

    since: str
    spent_usd: float | None = Field(description="null: nothing of it has a price")
    allowed_usd: float = Field(description="at_most_usd for each unit, for one where there is none")
    units: float
    usd_per_unit: float | None


class CostBody(SpendBody):
    """What an SLO about cost spent in its window, as of `at`, and in each that it burns over."""

    at_most_usd: float
    per: str = Field(description="request, good_request, task or million_tokens")
    idle: str = Field(description="idle GPUs and overhead: apart, or shared by use")
    at: str = Field(description="spending is read as of whole minutes")
    unpriced_requests: int = Field(description="without a price: spent is at least what is shown")
    unpriced_share: float = Field(description="of the requests, 0..1")
    unmeasured_requests: int = Field(description="that reached no engine and report no tokens")
    windows: dict[str, SpendBody]


class PeriodBody(BaseModel):
    """The budget of a calendar period, as spent so far; it begins anew at `end`."""

    period: str
    zone: str
    start: str
    end: str
    good: int
    bad: int
    excluded: int
    total: int
    sli: float | None
    budget_remaining: float | None
    cost: SpendBody | None = Field(None, description="of an SLO about cost")


class SuspectBody(BaseModel):
    """A value with more of the bad requests than of all of them, as shares."""

    dimension: str
    value: str
    of_bad: float
    of_all: float


class SurgeBody(BaseModel):
    """A value that sends far more than before the burn; `what` is requests or prompt_tokens."""

    dimension: str
    value: str
    what: str
    per_minute: float
    before_per_minute: float


class CausesBody(BaseModel):
    """What a burning group burns on, over its tier's long window, at most six hours."""

    since: str | None
    reasons: dict[str, float] = Field(description="share of the bad requests, by clause or outcome")
    suspects: list[SuspectBody] = Field(description="the strongest first; none: it is everywhere")
    surges: list[SurgeBody] = Field(description="who sends far more than before the burn")
    traces: list[str] = Field(description="newest bad requests of the strongest suspect")


class RequestsBody(BaseModel):
    """Requests of the budget window, whatever they weigh."""

    good: int
    bad: int
    excluded: int
    unweighed: int = Field(description="of the judged ones, those without a known weight")
    heaviest: int = Field(description="weight of the heaviest judged one")


class SlicesBody(BaseModel):
    """What a slice of time is."""

    length: str
    good: float = Field(description="share of its requests that makes a slice good, 0..1")


class SloBody(BaseModel):
    """One SLO and one group. `total` is good + bad; excluded requests are apart."""

    name: str
    group: dict[str, str]
    objective: float | None = Field(
        description="share of requests that must be good, 0..1; null for an SLO about cost"
    )
    window: str
    unit: str = Field(
        description="what good, bad, excluded, total and bad_reasons count: requests, tokens, "
        "micro_usd, ms, verdicts or slices"
    )
    slices: SlicesBody | None = Field(description="what a slice is, where they are counted")
    good: int
    bad: int
    excluded: int
    total: int
    requests: RequestsBody | None = Field(description="those behind weights; null of slices")
    sli: float | None
    cost: CostBody | None = Field(description="dollars of an SLO about cost")
    budget_remaining: float | None = Field(
        description="1 is untouched, negative is overspent, null is no data"
    )
    burn: dict[str, float | None] = Field(description="burn rate by window; null is no traffic")
    coverage: float | None = Field(description="share of minutes in which a source was heard")
    watermark: str | None = Field(description="newest event of the sources that feed this SLO")
    state: str
    tiers: list[TierBody]
    bad_reasons: dict[str, int]
    problem: str | None = Field(
        description="why counts may be old or lack something: a Prometheus server, weights"
    )
    bad_in_a_row: int = Field(description="bad requests since the last good one")
    forecast: ForecastBody | None = Field(description="of a group that spends its budget")
    expires_in: str | None = Field(description="what is left is foreseen to last this long")
    labels: dict[str, str]
    annotations: dict[str, str]
    periods: list[PeriodBody]
    causes: CausesBody | None = Field(description="null unless it burns")
    at: str


class SlosBody(BaseModel):
    """All verdicts as of `now`."""

    now: str
    slos: list[SloBody]


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
        return AllTargetsBody(targets=[_targets(each, tokens) for each in found if each.limits])

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


def body_of(verdict: Verdict) -> SloBody:
    """Write a verdict as the API shows it."""
    return SloBody(
        name=verdict.slo,
        group=dict(verdict.group),
        objective=verdict.objective,
        window=format_duration(verdict.window),
        unit=verdict.unit,
        slices=_slices(verdict.slices),
        good=verdict.good,
        bad=verdict.bad,
        excluded=verdict.excluded,
        total=verdict.total,
        requests=_requests(verdict),
        sli=verdict.sli,
        cost=None if verdict.cost is None else _cost(verdict.cost),
        budget_remaining=verdict.budget_remaining,
        burn=dict(verdict.burn),
        coverage=verdict.coverage,
        watermark=format_instant(verdict.watermark) if verdict.watermark else None,
        state=verdict.state.value,
        tiers=[TierBody(**_tier(tier)) for tier in verdict.tiers],
        bad_reasons=dict(verdict.bad_reasons),
        problem=verdict.problem,
        bad_in_a_row=verdict.bad_in_a_row,
        forecast=_forecast(verdict.forecast),
        expires_in=None if verdict.expires_in is None else format_duration(verdict.expires_in),
        labels=dict(verdict.labels),
        annotations=dict(verdict.annotations),
        periods=[_period(each) for each in verdict.periods],
        causes=_causes(verdict.causes),
        at=format_instant(verdict.at),
    )


def _requests(verdict: Verdict) -> RequestsBody | None:
    if verdict.slices is not None:
        return None
    found = verdict.requests
    if found is None:
        return RequestsBody(
            good=verdict.good,
            bad=verdict.bad,
            excluded=verdict.excluded,
            unweighed=0,
            heaviest=min(verdict.total, 1),
        )
    return RequestsBody(
        good=found.total - found.bad,
        bad=found.bad,
        excluded=found.excluded,
        unweighed=found.unweighed,
        heaviest=found.heaviest,
    )


def _slices(slices: Slices | None) -> SlicesBody | None:
    if slices is None:
        return None
    return SlicesBody(length=format_duration(slices.length), good=float(slices.share))


def _forecast(forecast: Forecast | None) -> ForecastBody | None:
    if forecast is None:
        return None
    at, earliest, latest = (
        format_instant(each) if each else None
        for each in (forecast.at, forecast.earliest, forecast.latest)
    )
    return ForecastBody(at=at, earliest=earliest, latest=latest, says=forecast.says)


def _causes(causes: Causes | None) -> CausesBody | None:
    if causes is None:
        return None
    return CausesBody(
        since=format_instant(causes.since) if causes.since else None,
        reasons=dict(causes.reasons),
        suspects=[SuspectBody(**asdict(each)) for each in causes.suspects],
        surges=[SurgeBody(**asdict(each)) for each in causes.surges],
        traces=list(causes.traces),
    )


def _targets(each: Targets, tokens: dict[str, int]) -> TargetsBody:
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


def _period(each: PeriodVerdict) -> PeriodBody:
    return PeriodBody(
        period=each.period,
        zone=each.zone,
        start=format_instant(each.start),
        end=format_instant(each.end),
        good=each.good,
        bad=each.bad,
        excluded=each.excluded,
        total=each.total,
        sli=each.sli,
        budget_remaining=each.budget_remaining,
        cost=None if each.cost is None else SpendBody(**_spend(each.cost)),
    )


def _cost(cost: CostVerdict) -> CostBody:
    return CostBody(
        **_spend(cost.whole),
        at_most_usd=cost.at_most_usd,
        per=cost.per,
        idle=cost.idle,
        at=format_instant(cost.at),
        unpriced_requests=cost.unpriced_requests,
        unpriced_share=cost.unpriced_share,
        unmeasured_requests=cost.unmeasured_requests,
        windows={length: SpendBody(**_spend(each)) for length, each in cost.windows.items()},
    )


def _spend(spend: Spend) -> dict[str, Any]:
    return asdict(spend) | {"since": format_instant(spend.since)}


def _tier(tier: TierVerdict) -> dict[str, Any]:
    return {
        "name": tier.name,
        "severity": tier.severity,
        "factor": tier.factor,
        "long": format_duration(tier.long),
        "short": format_duration(tier.short),
        "long_burn": tier.long_burn,
        "short_burn": tier.short_burn,
        "burning": tier.burning,
        "known": tier.known,
        "hold": format_duration(max(tier.hold, tier.short)),
    }


def _instant(text: str) -> Any:
    try:
        return parse_instant(text)
    except BadInput as error:
        raise HTTPException(400, str(error)) from error
