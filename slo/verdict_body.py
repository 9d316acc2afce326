"""A verdict as the API shows it; what is unknown is null."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from base.durations import format_duration, format_instant
from slo.forecast import Forecast
from slo.slices import Slices
from slo.verdict import Causes, CostVerdict, PeriodVerdict, Spend, TierVerdict, Verdict


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
