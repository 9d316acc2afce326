"""What a notification says about dollars, in plain words; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from alerts.facts import Facts
from alerts.model import Severity

UNITS = {
    "request": "request",
    "good_request": "good request",
    "task": "completed task",
    "million_tokens": "million tokens",
}


def headline(facts: Facts, severity: Severity, resolved_at: datetime | None) -> str:
    """Say by how much too dear it is: "spends 1.8 times what it may: $0.0072 per good request"."""
    cost = facts.cost
    if resolved_at is not None:
        return f"it spends no more than it may again, {_limit(cost)} per {unit(cost)}"
    if facts.burn is None:
        return f"it spends more than it may, {_limit(cost)} per {unit(cost)} ({severity})"
    if cost["usd_per_unit"] is None:
        return (
            f"it spent {dollars(cost['spent_usd'])} over {cost['window']} without a single "
            f"{unit(cost)}, {_limit(cost)} each ({severity})"
        )
    return (
        f"it spends {_times(facts.burn)} times what it may: {unit_cost(cost)}, {_limit(cost)}, "
        f"over {cost['window']} ({severity})"
    )


def budget(facts: Facts, resolved_at: datetime | None) -> str:
    """Say what is left of the allowance, and whether some of the spending is not known."""
    cost, left = facts.cost, facts.budget_remaining
    unsure = cost.get("unpriced_share") or 0
    tail = f" {unsure * 100:.3g} % of the requests have no price: it is more." if unsure else ""
    if left is None:
        return f"How much of the {facts.window} allowance is left is unknown.{tail}"
    spent, allowed = dollars(cost["budget_spent_usd"]), dollars(cost["budget_allowed_usd"])
    if left <= 0:
        return f"The {facts.window} allowance is spent: {spent} of {allowed}.{tail}"
    said = f"{spent} of the {facts.window} allowance of {allowed} is spent"
    if facts.expires_in_s is not None and resolved_at is None:
        days = facts.expires_in_s / 86_400
        span = f"{days:.3g} days" if days >= 2 else f"{days * 24:.3g} hours"
        return f"{said}; it is expected to be gone in {span}.{tail}"
    return f"{said}.{tail}"


def noted(facts: Facts) -> dict[str, str]:
    """Say what a unit costs, for alerts that are about that."""
    return {"cost": unit_cost(facts.cost)} if facts.cost else {}


def unit_cost(cost: Mapping[str, Any]) -> str:
    """Write "$0.0072 per good request"."""
    per_unit = cost["usd_per_unit"]
    return f"{'unknown' if per_unit is None else dollars(per_unit)} per {unit(cost)}"


def unit(cost: Mapping[str, Any]) -> str:
    return UNITS.get(cost["per"], str(cost["per"]))


def dollars(amount: float | None) -> str:
    """Write dollars with cents, and small ones with three digits."""
    if amount is None:
        return "unknown"
    if amount == 0:
        return "$0"
    if abs(amount) >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.3g}" if abs(amount) >= 1e-4 else f"${amount:.2e}"


def _limit(cost: Mapping[str, Any]) -> str:
    return f"at most {dollars(cost['at_most_usd'])}"


def _times(burn: float) -> str:
    return f"{burn:.3g}" if burn < 1000 else f"{burn:,.0f}"
