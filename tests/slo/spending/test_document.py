"""Documents with `cost:`."""

from __future__ import annotations

from pathlib import Path

import pytest

from slo.described import changes, describe
from slo.documents import Loaded, read
from slo.spending.model import PICO, Idle, Per
from slo.spending.tiers import derive
from tests.slo.spending.world import DAY, HOUR

DOCUMENT = """\
kind: slo
name: chat-cost
window: 30d
group_by: [tenant, route]
cost:
  at_most_usd: 0.004
  per: good_request
"""


def load(tmp_path: Path, text: str) -> Loaded:
    (tmp_path / "slo.yaml").write_text(text)
    return read([tmp_path / "slo.yaml"])


def test_a_document_about_cost_is_read(tmp_path: Path) -> None:
    found = load(tmp_path, DOCUMENT)

    (slo,) = found.costs
    assert (found.slos, found.problems, found.warnings) == ((), (), ())
    assert (slo.name, slo.at_most, slo.per) == ("chat-cost", 4 * PICO // 1000, Per.GOOD_REQUEST)
    assert (slo.window, slo.group_by, slo.idle) == (30 * DAY, ("tenant", "route"), Idle.APART)
    assert (slo.tiers, slo.min_overspend) == (derive(30 * DAY), PICO)
    assert slo.source.endswith("slo.yaml:1")


def test_every_field_is_read(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        DOCUMENT
        + """\
  idle: shared
  min_overspend_usd: 0.25
eligible: route = '/v1/chat/completions'
good: {quick: ttft_ms <= 2000}
calendar: {period: month, zone: Europe/Berlin}
description: an answer costs less than half a cent
tiers: [{name: dear, severity: ticket, factor: 1.5, long: 6h, short: 1h}]
labels: {team: finance}
""",
    )

    (slo,) = found.costs
    assert (slo.idle, slo.min_overspend) == (Idle.SHARED, PICO // 4)
    assert [(t.name, t.factor, t.long, t.short) for t in slo.tiers] == [
        ("dear", 1.5, 6 * HOUR, HOUR)
    ]
    assert describe(slo) == {
        "cost.at_most_usd": "0.004", "cost.per": "good_request", "cost.idle": "shared",
        "cost.min_overspend_usd": "0.25", "window": "30d", "group_by": "tenant, route",
        "calendar": "month in Europe/Berlin", "eligible": "route = '/v1/chat/completions'",
        "description": "an answer costs less than half a cent", "good.quick": "ttft_ms <= 2000",
        "tiers.dear": "ticket at 1.5 over 6h and 1h", "labels.team": "finance",
    }  # fmt: skip


def test_another_price_is_told_as_a_change(tmp_path: Path) -> None:
    (before,) = load(tmp_path, DOCUMENT).costs
    (after,) = load(tmp_path, DOCUMENT.replace("0.004", "0.005")).costs

    assert changes(describe(before), describe(after)) == ["cost.at_most_usd: 0.004 -> 0.005"]


def test_money_is_what_is_written(tmp_path: Path) -> None:
    (slo,) = load(tmp_path, DOCUMENT.replace("0.004", "0.1")).costs

    assert slo.at_most == PICO // 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DOCUMENT + "objective: 99\n", "objective beside cost: an SLO is about a share"),
        (DOCUMENT + "min_bad: 5\n", "write cost.min_overspend_usd"),
        (DOCUMENT + "prometheus: {gauge: up}\n", "cost is of requests seen here"),
        (DOCUMENT + "tiers: classic\n", "the classic ones are about failures"),
        (DOCUMENT + "tiers: [{name: a, factor: 2, long: 90s, short: 1m}]\n",
         "tier 'a' long is not whole minutes"),
        (DOCUMENT + "tiers: [{name: a, factor: 2, long: 1h, short: 2h}]\n", "needs short < long"),
        (DOCUMENT + "tiers: [{name: a, factor: 2, long: 2h, short: 1h, min_bad: 3}]\n",
         "spending is not counted in bad requests"),
        (DOCUMENT.replace("0.004", "0"), "at_most_usd 0 would be spent by anything"),
        (DOCUMENT.replace("0.004", "-1"), "is not between 0 and 1,000,000 dollars"),
        (DOCUMENT.replace("0.004", ".nan"), "is not between 0 and 1,000,000 dollars"),
        (DOCUMENT.replace("0.004", "1.0e-13"), "has more than twelve decimals"),
        (DOCUMENT.replace("0.004", "cheap"), "at_most_usd 'cheap' is not a number"),
        (DOCUMENT.replace("  at_most_usd: 0.004\n", ""), "at_most_usd is missing"),
        (DOCUMENT.replace("good_request", "smile"), "per 'smile' is not one of request, good"),
        (DOCUMENT + "  idle: mine\n", "idle 'mine' is neither apart nor shared"),
        (DOCUMENT + "  currency: EUR\n", "unknown field 'currency'"),
        (DOCUMENT.replace("good_request", "task"), "group_by route: the requests of a task may go"),
        (DOCUMENT + "overrides: [{match: {tenant: a}}]\n",
         "it changes nothing: give it one of cost, tiers, labels, annotations"),
        (DOCUMENT + "overrides: [{match: {model: a}, cost: {at_most_usd: 1}}]\n",
         "the SLO is grouped by tenant, route"),
        (DOCUMENT + "overrides: [{match: {tenant: a}, cost: {at_most_usd: 1}}, "
         "{match: {tenant: a}, cost: {at_most_usd: 2}}]\n", "remove one of the two"),
        ("kind: slo\nname: a\ncost: 5\n", "cost is not a mapping"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_says_what_to_write(tmp_path: Path, text: str, message: str) -> None:
    found = load(tmp_path, text)

    assert found.costs == ()
    assert any(message in problem for problem in found.problems), found.problems


def test_some_groups_have_another_price(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        DOCUMENT
        + """\
overrides:
  - match: {tenant: [acme, globex]}
    cost: {at_most_usd: 0.01, min_overspend_usd: 5}
    labels: {plan: gold}
  - match: {route: /v1/embeddings}
    tiers: [{name: dear, severity: ticket, factor: 3, long: 12h, short: 1h}]
""",
    )

    assert found.problems == ()
    (slo,) = found.costs
    gold, other = slo.for_group(("acme", "/v1/embeddings")), slo.for_group(("a", "/v1/embeddings"))
    assert (gold.at_most, gold.min_overspend) == (PICO // 100, 5 * PICO)
    assert (gold.labels, gold.tiers) == ({"plan": "gold"}, slo.tiers)
    assert (other.at_most, other.min_overspend) == (slo.at_most, slo.min_overspend)
    assert [tier.factor for tier in other.tiers] == [3]
    assert slo.for_group(("a", "b")).at_most == slo.at_most
    said = describe(slo)
    assert said["overrides[tenant=acme|globex].cost.at_most_usd"] == "0.01"
    assert said["overrides"] == "tenant=acme|globex; route=/v1/embeddings"


def test_a_factor_below_one_is_a_warning(tmp_path: Path) -> None:
    found = load(tmp_path, DOCUMENT + "tiers: [{name: a, factor: 0.9, long: 2h, short: 1h}]\n")

    assert "it alerts while less is spent than may be" in found.warnings[0]


def test_names_are_taken_by_either_kind(tmp_path: Path) -> None:
    other = "---\nkind: slo\nname: chat-cost\nobjective: 99\n"

    found = load(tmp_path, DOCUMENT + other)

    assert "the name is taken by slo.yaml line 1" in found.problems[0]
