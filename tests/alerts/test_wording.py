from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from alerts import wording
from alerts.facts import Facts
from alerts.model import Severity
from alerts.subject import subject_of
from slo.verdict import Causes, Surge, Suspect

ACME = {"tenant": "acme"}


def facts_of(say: SimpleNamespace) -> Facts:
    return subject_of(say.paging(), say.settings()).facts


def test_a_burn_is_told_in_plain_words(say: SimpleNamespace) -> None:
    said = wording.describe(
        "chat-ttft", ACME, Severity.PAGE, facts_of(say), ["shed 90 % of acme at the gateway"]
    )

    assert said == {
        "summary": (
            "chat-ttft{tenant=acme}: the error budget is burning 20x too fast over 1h (page)"
        ),
        "description": (
            "chat-ttft{tenant=acme}: the error budget is burning 20x too fast over 1h (page). "
            "38 % of the 30d budget for the objective of 99 % is left, expected to be gone "
            "in 13h41m. Most frequent reasons: slow_ttft (48), timeout (9), capacity (3). "
            "Done by the control plane: shed 90 % of acme at the gateway."
        ),
        "burn": "20x over 1h",
        "budget_left": "38 %",
        "exhausted_in": "13h41m",
        "top_reasons": "slow_ttft (48), timeout (9), capacity (3)",
        "actions": "shed 90 % of acme at the gateway",
        "runbook": "https://runbooks.example/chat",
    }


def test_a_burn_names_since_when_on_what_and_where_to_look(say: SimpleNamespace) -> None:
    causes = Causes(
        since=datetime(2026, 11, 30, 17, 42, tzinfo=UTC),
        reasons=(("first token", 0.81), ("timeout", 0.19)),
        suspects=(Suspect("replica", "r3", 0.92, 0.24), Suspect("model", "llama", 0.8, 0.5)),
        traces=("ab" * 16, "cd" * 16),
        surges=(Surge("tenant", "umbrella", "prompt_tokens", 12_000.0, 1_000.0),),
    )
    facts = subject_of(replace(say.paging(), causes=causes), say.settings()).facts

    said = wording.describe("chat", ACME, Severity.PAGE, Facts.from_json(facts.to_json()), ())

    assert said["summary"].endswith("20x too fast over 1h since 17:42 UTC (page)")
    assert said["top_reasons"] == "first token (81 %), timeout (19 %)"
    assert said["suspects"] == (
        "Most of it is replica r3: 92 % of the bad requests, 24 % of all; also model llama"
    )
    assert said["traces"] == f"{'ab' * 16}, {'cd' * 16}"
    assert said["surges"] == "Tenant umbrella sends 12x the prompt tokens of before"
    assert f"{said['suspects']}. {said['surges']}. Traces: {said['traces']}." in said["description"]


def test_reasons_are_counted_in_the_unit_of_the_slo(say: SimpleNamespace) -> None:
    facts = replace(facts_of(say), shares={}, bad_reasons={"timeout": 4800, "first": 200})

    said = wording.describe("s", {}, Severity.PAGE, replace(facts, unit="micro_usd"), ())
    plain = wording.describe("s", {}, Severity.PAGE, facts, ())

    assert said["top_reasons"] == "timeout (4800 micro usd), first (200 micro usd)"
    assert plain["top_reasons"] == "timeout (4800), first (200)"


def test_an_overspent_budget_and_an_unknown_one_are_told_apart(say: SimpleNamespace) -> None:
    facts = facts_of(say)
    spent = wording.describe("s", {}, Severity.PAGE, replace(facts, budget_remaining=-0.42), ())
    unknown = wording.describe("s", {}, Severity.PAGE, replace(facts, budget_remaining=None), ())

    assert "is spent (-42 % left)" in spent["description"]
    assert (unknown["budget_left"], "is unknown" in unknown["description"]) == ("unknown", True)


def test_an_end_says_so_and_promises_no_exhaustion(say: SimpleNamespace) -> None:
    ended_at = datetime(2026, 11, 30, 18, tzinfo=UTC)
    said = wording.describe("s", ACME, Severity.PAGE, facts_of(say), (), ended_at)

    assert said["summary"] == "s{tenant=acme}: the error budget stopped burning"
    assert "exhausted_in" not in said
    assert "pace" not in said["description"]


def test_the_document_s_own_summary_wins(say: SimpleNamespace) -> None:
    facts = replace(facts_of(say), annotations={"summary": "chat is slow"})

    assert wording.describe("s", {}, Severity.PAGE, facts, ())["summary"] == "chat is slow"


def test_labels_of_the_document_cannot_take_the_place_of_identity(say: SimpleNamespace) -> None:
    facts = replace(facts_of(say), labels={"slo": "other", "team": "x", "gen_ai.system": "vllm"})

    assert wording.labels("SLOBurn", "s", {"tenant": "acme", "empty": ""}, facts) == {
        "alertname": "SLOBurn",
        "slo": "s",
        "tenant": "acme",
        "team": "x",
        "gen_ai_system": "vllm",
    }


def test_facts_survive_storage(say: SimpleNamespace) -> None:
    facts = facts_of(say)

    assert Facts.from_json({**facts.to_json(), "from a newer version": 1}) == facts


def test_a_link_escapes_what_it_must() -> None:
    url = wording.dashboard_url("https://slo.example/", "a b", {"tenant": "x&y"})

    assert url == "https://slo.example/slo?name=a%20b&group=tenant:x%26y"


COST = {
    "at_most_usd": 0.004, "per": "good_request", "window": "6h", "spent_usd": 1.44,
    "allowed_usd": 0.8, "usd_per_unit": 0.0072, "budget_spent_usd": 120.5,
    "budget_allowed_usd": 97.1, "unpriced_share": 0.0,
}  # fmt: skip


def said_of(
    severity: Severity = Severity.TICKET, ended: datetime | None = None, **changes: Any
) -> Any:
    cost = COST | changes.pop("cost", {})
    facts = Facts(window="30d", burn=1.8, burn_window="6h", budget_remaining=-0.24, cost=cost)
    return wording.describe("chat-cost", ACME, severity, replace(facts, **changes), (), ended)


def test_what_is_too_dear_is_said_in_dollars() -> None:
    said = said_of()

    assert said["summary"] == (
        "chat-cost{tenant=acme}: it spends 1.8 times what it may: $0.0072 per good request, "
        "at most $0.004, over 6h (ticket)"
    )
    assert said["description"].endswith("The 30d allowance is spent: $120.50 of $97.10.")
    assert (said["cost"], said["burn"]) == ("$0.0072 per good request", "1.8x over 6h")


def test_spending_with_nothing_to_show_for_it_says_so() -> None:
    said = said_of(Severity.PAGE, burn=360.0, cost={"usd_per_unit": None, "per": "task"})

    assert (
        "it spent $1.44 over 6h without a single completed task, at most $0.004 each (page)"
        in (said["summary"])
    )


def test_what_is_left_of_an_allowance_is_said_with_how_long_it_lasts() -> None:
    said = said_of(budget_remaining=0.1, expires_in_s=9 * 86_400.0, cost={"unpriced_share": 0.12})

    assert said["description"].endswith(
        "$120.50 of the 30d allowance of $97.10 is spent; it is expected to be gone in 9 days. "
        "12 % of the requests have no price: it is more."
    )


def test_the_end_of_an_overspend_says_what_it_may_cost() -> None:
    said = said_of(ended=datetime(2026, 11, 30, tzinfo=UTC))

    assert said["summary"].endswith(
        "it spends no more than it may again, at most $0.004 per good request"
    )
