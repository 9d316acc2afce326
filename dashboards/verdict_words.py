"""A verdict in words: its state, what is foreseen, what it fails on, how much more fits. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from base.durations import format_duration
from dashboards.budgets import allowed_of
from dashboards.shares import shares
from dashboards.wording import burn, count, dollars, moment, percent, span
from slo.model import Slo
from slo.overrides import Chooser
from slo.spending.model import CostSlo
from slo.verdict import State, TierVerdict, Verdict

TONES = {
    State.OK: "good",
    State.BURNING: "bad",
    State.EXHAUSTED: "bad",
    State.NO_TRAFFIC: "calm",
    State.STALE: "frozen",
    State.ABSENT: "frozen",
}
WORDS = {
    State.OK: "ok",
    State.BURNING: "burning",
    State.EXHAUSTED: "exhausted",
    State.NO_TRAFFIC: "no traffic",
    State.STALE: "frozen",
    State.ABSENT: "no data yet",
}
_WORST = (
    State.BURNING,
    State.EXHAUSTED,
    State.STALE,
    State.OK,
    State.NO_TRAFFIC,
    State.ABSENT,
)


def by_urgency(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Order: what burns first, the emptiest budget first."""
    return sorted(
        verdicts,
        key=lambda v: (
            _WORST.index(v.state),
            v.budget_remaining if v.budget_remaining is not None else 2.0,
            v.slo,
            tuple(v.group.values()),
        ),
    )


def target(verdict: Verdict) -> str:
    """Write what is asked: a share of requests, or dollars at most."""
    if verdict.cost is None:
        return percent(verdict.objective, 2)
    return f"{dollars(verdict.cost.at_most_usd)} / {_UNITS[verdict.cost.per]}"


def reached(verdict: Verdict) -> str:
    """Write what was reached: a share of requests, or what a unit costs."""
    if verdict.cost is None:
        return percent(verdict.sli, 2)
    return dollars(verdict.cost.whole.usd_per_unit)


def document_of(slo: Slo | CostSlo, verdict: Verdict) -> Slo | CostSlo:
    """Return a document as it is for a verdict's group, its overrides looked up."""
    group = tuple(verdict.group.values())
    return slo.for_group(group) if len(group) == len(slo.group_by) else slo


def override_of(slo: Slo | CostSlo | None, verdict: Verdict) -> str:
    """Name the override that holds for a verdict's group; empty where none does."""
    group = tuple(verdict.group.values())
    if slo is None or not slo.overrides or len(group) != len(slo.group_by):
        return ""
    number = Chooser(slo.group_by, slo.overrides).of(group)
    return "" if number is None else str(slo.overrides[number])


def unit_of(verdict: Verdict) -> str:
    """Name what is counted, as people do: requests, tokens, dollars, seconds, slices of 1m."""
    if verdict.slices is not None:
        return f"slices of {format_duration(verdict.slices.length)}"
    return _COUNTED.get(verdict.unit, verdict.unit.replace("_", " "))


def amount(verdict: Verdict, number: float) -> str:
    """Write a number of what a verdict counts."""
    match verdict.unit:
        case "micro_usd":
            return dollars(number / 1e6)
        case "ms":
            return f"{count(number / 1000)} s"
        case _:
            return count(number)


def steady_tier(verdict: Verdict) -> TierVerdict | None:
    """Pick the tier of an hour or so to stand for all; the burn of five minutes jumps about."""
    by_length = sorted(verdict.tiers, key=lambda tier: tier.long)
    return next((t for t in by_length if t.name != "outage"), by_length[0] if by_length else None)


def state_words(verdict: Verdict) -> str:
    """Say in a sentence how the budget stands."""
    match verdict.state:
        case State.BURNING:
            return _burning(verdict)
        case State.STALE:
            return _frozen(verdict)
        case other:
            return _SENTENCES[other]


def fits(verdict: Verdict) -> str:
    """Say how many more may fail, or how many too many did."""
    left = verdict.budget_remaining
    if verdict.cost is not None:
        whole = verdict.cost.whole
        return f"{dollars(whole.spent_usd)} of {dollars(whole.allowed_usd)} is spent"
    if left is None:
        return "nothing was judged"
    more = round(allowed_of(verdict, verdict.total) * left, 6)
    if more < 0:
        return f"{amount(verdict, math.ceil(-more))} bad too many"
    return f"{amount(verdict, math.floor(more))} more bad {unit_of(verdict)} fit"


def forecast_words(verdict: Verdict) -> str:
    """Say when the budget will be spent, with its interval; empty where nothing is foreseen."""
    left, forecast = verdict.budget_remaining, verdict.forecast
    if left is not None and left <= 0:
        return "budget is spent"
    if forecast is None or forecast.earliest is None:
        return ""
    return f"budget spent {forecast.says}"


def reason_words(reason: str) -> str:
    """Write the name of a reason as words; a clause that is its own text stays as it is."""
    return reason.replace("_", " ") if reason.isidentifier() else reason


def leading(verdict: Verdict) -> str:
    """Name what most of the bad requests failed on: "first token: 76 %"; empty without any."""
    counts: Mapping[str, float] = (
        dict(verdict.causes.reasons) if verdict.causes else verdict.bad_reasons
    )
    found = shares(counts, 8)
    return f"{reason_words(found[0].name)}: {found[0].text}" if found else ""


def _burning(verdict: Verdict) -> str:
    tier = max(
        (tier for tier in verdict.tiers if tier.burning),
        key=lambda tier: (tier.severity == "page", (tier.long_burn or 0) / tier.factor),
        default=None,
    )
    if tier is None:
        return "Burning."
    since = verdict.causes.since if verdict.causes else None
    begun = f" since {moment(since, verdict.at)} UTC" if since else ""
    lasted = f" ({span(verdict.at - since)})" if since else ""
    return (
        f"Burning{begun}{lasted}: {burn(tier.long_burn)} as fast as the budget allows"
        f" over {format_duration(tier.long)}; a {tier.severity} at {burn(tier.factor)}."
    )


def _frozen(verdict: Verdict) -> str:
    if verdict.watermark is None or not all(tier.known for tier in verdict.tiers):
        return "Frozen: too little was heard to say whether it burns. Nothing fires or resolves."
    return f"Frozen: nothing was heard since {moment(verdict.watermark, verdict.at)} UTC."


_SENTENCES = {
    State.OK: "Within budget. Nothing burns.",
    State.EXHAUSTED: "Nothing is left of the budget. Nothing burns now.",
    State.NO_TRAFFIC: "The sources are alive; no request that is asked about came lately.",
    State.ABSENT: "No source has ever sent anything that this SLO could judge.",
}
_UNITS = {
    "request": "request",
    "good_request": "good",
    "task": "task",
    "million_tokens": "Mtok",
}
_COUNTED = {"micro_usd": "dollars", "ms": "seconds"}
