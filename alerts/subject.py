"""Turn a verdict into what the state machine reads: who it is about, and what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from alerts.facts import Facts
from alerts.model import Burning, Clear, Reading, Severity, Unknown
from alerts.settings import AlertSettings
from base.durations import format_duration, format_instant
from base.labels import fingerprint
from slo.verdict import Causes, State, TierVerdict, Verdict

BURN_ALERT = "SLOBurn"


@dataclass(frozen=True, slots=True)
class Subject:
    """One alert's identity and its reading in this tick.

    `slo` is empty for alerts about tokenweir itself; `group` tells alerts of one name apart.
    """

    alertname: str
    slo: str
    group: Mapping[str, str]
    reading: Reading
    facts: Facts

    @property
    def fingerprint(self) -> str:
        return identity(self.alertname, self.slo, self.group)


def identity(alertname: str, slo: str, group: Mapping[str, str]) -> str:
    """Name an alert by what never changes while it lives; never by a burn value or a time."""
    return fingerprint(
        {"alertname": alertname, "slo": slo, **{f"group/{k}": v for k, v in group.items()}}
    )


def subject_of(verdict: Verdict, settings: AlertSettings) -> Subject:
    tier = _loudest(verdict.tiers)
    return Subject(
        BURN_ALERT,
        verdict.slo,
        dict(verdict.group),
        _reading(verdict, tier, settings),
        _facts(verdict, tier),
    )


def _reading(verdict: Verdict, tier: TierVerdict | None, settings: AlertSettings) -> Reading:
    match verdict.state:
        case State.STALE:
            return Unknown(_unheard(verdict))
        case State.ABSENT:
            return Unknown("no data has ever arrived")
    # No traffic from a source that is alive is a measurement: nothing burns.
    if tier is None:
        return Clear()
    keep_for = settings.keep_firing_for
    return Burning(
        severity=Severity(tier.severity),
        tier=tier.name,
        hold_for=settings.pending_for,
        keep_for=max(tier.short, tier.hold) if keep_for is None else keep_for,
    )


def _unheard(verdict: Verdict) -> str:
    if verdict.watermark is None:
        return "the source is silent"
    if verdict.cost is not None and verdict.problem and verdict.cost.unpriced_share > 0:
        return verdict.problem
    unsure = [format_duration(tier.long) for tier in verdict.tiers if not tier.known]
    if unsure and verdict.watermark > verdict.at - min(tier.long for tier in verdict.tiers):
        return f"the source was not heard for much of the last {', '.join(unsure)}"
    return f"the source has been silent since {verdict.watermark:%Y-%m-%dT%H:%M:%SZ}"


def _loudest(tiers: Sequence[TierVerdict]) -> TierVerdict | None:
    burning = [tier for tier in tiers if tier.burning]
    return max(burning, key=lambda t: (Severity(t.severity).rank, t.factor), default=None)


def _facts(verdict: Verdict, tier: TierVerdict | None) -> Facts:
    return Facts(
        objective=verdict.objective,
        window=format_duration(verdict.window),
        good=verdict.good,
        bad=verdict.bad,
        sli=verdict.sli,
        budget_remaining=verdict.budget_remaining,
        burn=tier.long_burn if tier else None,
        burn_window=format_duration(tier.long) if tier else "",
        factor=tier.factor if tier else None,
        expires_in_s=verdict.expires_in.total_seconds() if verdict.expires_in is not None else None,
        bad_reasons=dict(verdict.bad_reasons),
        unit=verdict.unit,
        **_causes(verdict.causes),
        cost=_cost(verdict, tier),
        labels=dict(verdict.labels),
        annotations=dict(verdict.annotations),
    )


def _cost(verdict: Verdict, tier: TierVerdict | None) -> dict[str, Any]:
    """Keep the dollars of the tier's long window, or of the budget window where none burns."""
    if verdict.cost is None:
        return {}
    cost = verdict.cost
    spend = cost.windows.get(format_duration(tier.long)) if tier else None
    window = tier.long if tier and spend else verdict.window
    spend = spend or cost.whole
    return {
        "at_most_usd": cost.at_most_usd,
        "per": cost.per,
        "window": format_duration(window),
        "spent_usd": spend.spent_usd,
        "allowed_usd": spend.allowed_usd,
        "usd_per_unit": spend.usd_per_unit,
        "budget_spent_usd": cost.whole.spent_usd,
        "budget_allowed_usd": cost.whole.allowed_usd,
        "unpriced_share": cost.unpriced_share,
    }


def _causes(causes: Causes | None) -> dict[str, Any]:
    if causes is None:
        return {}
    return {
        "burning_since": format_instant(causes.since) if causes.since else "",
        "shares": dict(causes.reasons),
        "suspects": [asdict(suspect) for suspect in causes.suspects],
        "surges": [asdict(surge) for surge in causes.surges],
        "traces": list(causes.traces),
    }
