"""What a notification says, in plain words; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from alerts import cost_wording
from alerts.facts import Facts
from alerts.model import Severity
from alerts.notice import safe_label
from base.durations import format_duration, parse_instant
from base.labels import in_address
from slo.weight import REQUESTS

_TOP_REASONS = 3


def labels(alertname: str, slo: str, group: Mapping[str, str], facts: Facts) -> dict[str, str]:
    """Label an alert: the document's own labels, then who it is; empty values are left out."""
    pairs = {**facts.labels, **group, "slo": slo, "alertname": alertname}
    return {safe_label(name): str(value) for name, value in pairs.items() if value}


def describe(
    slo: str,
    group: Mapping[str, str],
    severity: Severity,
    facts: Facts,
    actions: Sequence[str],
    resolved_at: datetime | None = None,
) -> dict[str, str]:
    """Say what burns, how fast, how much is left, until when, why, and what was done about it."""
    if not slo:
        return {"summary": facts.text, "description": facts.text}
    who = f"{slo}{_braces(group)}"
    said = dict(facts.annotations)
    reasons = _shares(facts.shares) or _reasons(facts.bad_reasons, facts.unit)
    said |= cost_wording.noted(facts)
    headline = _headline(facts, severity, resolved_at)
    sentences = [f"{who}: {headline}.", _budget(facts, resolved_at)]
    if reasons:
        sentences.append(f"Most frequent reasons: {reasons}.")
        said["top_reasons"] = reasons
    if suspects := _suspects(facts.suspects):
        sentences.append(f"{suspects}.")
        said["suspects"] = suspects
    if surges := _surges(facts.surges):
        sentences.append(f"{surges}.")
        said["surges"] = surges
    if facts.traces:
        said["traces"] = ", ".join(facts.traces)
        sentences.append(f"Traces: {said['traces']}.")
    if actions:
        said["actions"] = "; ".join(actions)
        sentences.append(f"Done by the control plane: {said['actions']}.")
    if facts.burn is not None:
        said["burn"] = f"{_number(facts.burn)}x over {facts.burn_window}"
    said["budget_left"] = _percent(facts.budget_remaining)
    left = facts.budget_remaining
    if facts.expires_in_s is not None and resolved_at is None and (left is None or left > 0):
        said["exhausted_in"] = _span(facts.expires_in_s)
    said.setdefault("summary", f"{who}: {headline}")
    if objective := said.pop("description", ""):
        sentences.insert(1, f"Objective: {objective}.")
    said["description"] = " ".join(sentences)
    return {safe_label(name): str(value) for name, value in said.items()}


def dashboard_url(external_url: str, slo: str, group: Mapping[str, str]) -> str:
    """Link to the page that shows this alert."""
    base = external_url.rstrip("/")
    if not slo:
        return f"{base}/"
    named = {"name": slo, **({"group": in_address(group)} if group else {})}
    return f"{base}/slo?{urlencode(named, safe=':,/', quote_via=quote)}"


def title(group_labels: Mapping[str, str], count: int, first: str) -> str:
    """Head a message about several alerts by the first of them."""
    name = group_labels.get("slo") or group_labels.get("alertname", "")
    return first if count <= 1 else f"{name}: {count} groups. {first}"


def _headline(facts: Facts, severity: Severity, resolved_at: datetime | None) -> str:
    if facts.cost:
        return cost_wording.headline(facts, severity, resolved_at)
    if resolved_at is not None:
        return "the error budget stopped burning"
    if facts.burn is None:
        return f"the error budget is burning ({severity})"
    pace = f"{_number(facts.burn)}x too fast over {facts.burn_window}"
    if facts.burning_since:
        pace += f" since {parse_instant(facts.burning_since):%H:%M} UTC"
    return f"the error budget is burning {pace} ({severity})"


def _budget(facts: Facts, resolved_at: datetime | None) -> str:
    if facts.cost:
        return cost_wording.budget(facts, resolved_at)
    left = facts.budget_remaining
    goal = "" if facts.objective is None else f" for the objective of {_goal(facts.objective)}"
    if left is None:
        return f"How much of the {facts.window} budget is left{goal} is unknown."
    if left <= 0:
        return f"The {facts.window} budget{goal} is spent ({_percent(left)} left)."
    said = f"{_percent(left)} of the {facts.window} budget{goal} is left"
    if facts.expires_in_s is not None and resolved_at is None:
        return f"{said}, expected to be gone in {_span(facts.expires_in_s)}."
    return f"{said}."


def _reasons(counts: Mapping[str, int], unit: str) -> str:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_TOP_REASONS]
    said = "" if unit == REQUESTS else f" {unit.replace('_', ' ')}"
    return ", ".join(f"{reason} ({count}{said})" for reason, count in ranked if count)


def _shares(shares: Mapping[str, float]) -> str:
    ranked = sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:_TOP_REASONS]
    return ", ".join(f"{reason} ({share * 100:.0f} %)" for reason, share in ranked)


def _suspects(suspects: Sequence[Mapping[str, Any]]) -> str:
    """Name the strongest: "Most of it is replica r3: 92 % of the bad requests, 24 % of all"."""
    if not suspects:
        return ""
    first, *others = suspects[:_TOP_REASONS]
    said = (
        f"Most of it is {first['dimension']} {first['value']}: "
        f"{first['of_bad'] * 100:.0f} % of the bad requests, {first['of_all'] * 100:.0f} % of all"
    )
    named = ", ".join(f"{other['dimension']} {other['value']}" for other in others)
    return f"{said}; also {named}" if named else said


def _surges(surges: Sequence[Mapping[str, Any]]) -> str:
    """Say who sends more: "Tenant acme sends 12x the prompt tokens of before"."""
    if not surges:
        return ""
    first = surges[0]
    what = str(first["what"]).replace("_", " ")
    name = str(first["dimension"]).replace("_id", "")
    before = first["before_per_minute"]
    much = (
        f"{_number(first['per_minute'] / before)}x the {what} of before"
        if before
        else (f"{_number(first['per_minute'])} {what} a minute, none before")
    )
    return f"{name.capitalize()} {first['value']} sends {much}"


def _braces(group: Mapping[str, str]) -> str:
    if not group:
        return ""
    return "{" + ", ".join(f"{name}={value}" for name, value in sorted(group.items())) + "}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value * 100:.3g} %"


def _goal(objective: float) -> str:
    return f"{objective * 100:.6g} %"


def _span(seconds: float) -> str:
    step = 60 if seconds >= 3600 else 1
    return format_duration(timedelta(seconds=max(step, round(seconds / step) * step)))
