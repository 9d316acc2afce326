"""What documents may say of weights and composites, and what changes with a component."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slo.composite import Kind
from slo.described import changes, describe
from slo.documents import read
from slo.expression_text import write
from slo.fields import Report
from slo.lint import check_documents
from slo.model import Slo
from slo.weight import may_be_unknown
from tests.slo.made_slos import read_one, read_slos

CHAT = {"name": "chat", "eligible": "route = '/chat'", "good": {"first token": "ttft_ms <= 2000"}}
PACE = {"name": "pace", "good": {"pace": "tpot_ms < 50", "answered": "outcome = 'good'"}}
TOKENS = {"name": "tokens", "weight": "coalesce(completion_tokens, 1)"}


def refused(*documents: dict[str, Any]) -> list[str]:
    report = Report()
    read_slos(documents, report)
    return report.problems


def composite(written: dict[str, Any], *components: dict[str, Any], **fields: Any) -> Slo:
    made = {"name": "both", "composite": written} | fields
    return read_slos([*components, made])[-1]


def test_all_asks_what_any_component_asks_and_wants_what_each_wants() -> None:
    both = composite({"all": ["chat", "pace"]}, CHAT, PACE)
    chats = composite({"all": ["chat"]}, CHAT)

    assert both.eligible is None
    assert [clause.name for clause in both.good] == [
        "chat: first token", "pace: pace", "pace: answered",
    ]  # fmt: skip
    assert write(both.good[0].expression) == (
        "not (coalesce(route = '/chat', false)) or ttft_ms <= 2000"
    )
    assert chats.eligible is not None
    assert not both.is_weighted
    assert both.unit == "requests"


def test_a_sum_keeps_each_component_apart() -> None:
    both = composite({"sum": {"chat": 2, "pace": 1}}, CHAT, PACE)

    assert [(part.name, part.factor) for part in both.questions] == [("chat", 2), ("pace", 1)]
    assert both.is_weighted
    assert both.unit == "verdicts"


@pytest.mark.parametrize("kind", ["all", "sum"])
def test_a_component_may_be_in_another_file(tmp_path: Path, kind: str) -> None:
    parts = "[chat]" if kind == "all" else "{chat: 3}"
    (tmp_path / "a.yaml").write_text(
        f"{{kind: slo, name: top, objective: 90, composite: {{{kind}: {parts}}}}}"
    )
    (tmp_path / "b.yaml").write_text("{kind: slo, name: chat, objective: 99}")

    found = read([tmp_path])

    assert found.problems == ()
    top = next(each for each in found.slos if each.name == "top")
    assert top.composite is not None
    assert top.composite.kind is Kind(kind)
    assert top.good


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{all: [chat, none]}", "a.yaml: slo 'top' line 4: component 'none' is not among"),
        ("{sum: {chat: 1, none: 2}}", "a.yaml: slo 'top' line 4: component 'none' is not among"),
        ("{all: [top]}", "a composite cannot be its own component"),
        ("{all: [chat, other]}", "component 'other' is a composite: name its components"),
        ("{sum: {server: 1}}", "component 'server' counts events of Prometheus"),
        ("{all: [minutes]}", "component 'minutes' counts slices of time"),
        ("{all: [dollars]}", "component 'dollars' is about cost"),
        ("{all: [chat, tokens]}", "do not weigh alike (chat requests, tokens tokens)"),
        ("{sum: {chat: 1, tokens: 1}}", "do not weigh alike (chat requests, tokens tokens)"),
        ("{all: [chat, chat]}", "composite names 'chat' twice"),
        ("{all: []}", "a composite has 1 to 20 components"),
        ("{}", "composite has either all: [names] or sum: {name: weight}"),
        ("{all: [chat], sum: {chat: 1}}", "composite has either"),
        ("{sum: {chat: 0}}", "the weight of 'chat' is not a whole number from 1 to 1000"),
        ("{sum: {chat: 1.5}}", "the weight of 'chat' is not a whole number"),
        ("{all: [3]}", "composite 3 is not the name of an SLO"),
        ("{most: [chat]}", "unknown field 'most'"),
        ("{all: [chat]}\neligible: streaming", "eligible is what the components"),
        ("{sum: {chat: 1}}\nweight: prompt_tokens", "a sum weighs by its components"),
    ],
)
def test_what_is_no_composite_is_refused_with_its_place(
    tmp_path: Path, written: str, said: str
) -> None:
    (tmp_path / "a.yaml").write_text(
        f"kind: slo\nname: top\nobjective: 90\ncomposite: {written}\n"
        "---\n{kind: slo, name: chat, objective: 99}\n"
        "---\n{kind: slo, name: tokens, objective: 99, weight: 'coalesce(prompt_tokens, 1)'}\n"
        "---\n{kind: slo, name: other, objective: 99, composite: {all: [chat]}}\n"
        "---\n{kind: slo, name: minutes, objective: 99, slices: {length: 1m, good: 95}}\n"
        "---\n{kind: slo, name: dollars, cost: {at_most_usd: 2, per: task}}\n"
        "---\n{kind: slo, name: server, objective: 99, prometheus: {gauge: up}}\n"
    )

    found = read([tmp_path])

    assert said in "\n".join(found.problems)
    assert "top" not in {slo.name for slo in found.slos}


def test_all_takes_a_weight_of_its_own_or_the_one_that_components_share() -> None:
    shared = composite({"all": ["tokens", "also"]}, TOKENS, TOKENS | {"name": "also"})
    own = composite({"all": ["chat", "tokens"]}, CHAT, TOKENS, weight="coalesce(prompt_tokens, 1)")

    assert shared.unit == own.unit == "tokens"


def test_a_sum_of_tokens_counts_tokens() -> None:
    found = composite({"sum": {"tokens": 1, "also": 2}}, TOKENS, TOKENS | {"name": "also"})

    assert found.unit == "tokens"


@pytest.mark.parametrize("kind", [{"all": ["chat", "pace"]}, {"sum": {"chat": 2, "pace": 1}}])
def test_what_a_composite_counts_changes_with_its_components(kind: dict[str, Any]) -> None:
    before = composite(kind, CHAT, PACE)
    stricter = composite(kind, CHAT | {"good": {"first token": "ttft_ms <= 1000"}}, PACE)
    elsewhere = composite(kind, CHAT | {"eligible": "route = '/talk'"}, PACE)
    renamed = composite(kind, CHAT | {"objective": 99, "window": "1d"}, PACE)

    assert len({each.definition for each in (before, stricter, elsewhere)}) == 3
    assert renamed.definition == before.definition
    (line,) = changes(describe(before), describe(stricter))
    assert line.endswith(".chat.good.first token: ttft_ms <= 2000 -> ttft_ms <= 1000")


def test_weights_and_factors_are_what_is_counted() -> None:
    one = composite({"sum": {"chat": 2, "pace": 1}}, CHAT, PACE)
    other = composite({"sum": {"chat": 3, "pace": 1}}, CHAT, PACE)
    plain, tokens, usd = (
        read_one(**fields)
        for fields in (
            {},
            {"weight": "prompt_tokens"},
            {"weight": {"by": "prompt_tokens", "unit": "usd"}},
        )
    )

    assert len({each.definition for each in (one, other, plain, tokens, usd)}) == 5
    assert changes(describe(one), describe(other)) == ["composite.sum.chat: weight 2 -> weight 3"]
    assert changes(describe(plain), describe(tokens)) == [
        "weight: added: prompt_tokens in tokens"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("weight", "unit"),
    [
        ("completion_tokens", "tokens"),
        ("prompt_tokens - cached_tokens + 4 * completion_tokens", "tokens"),
        ("reported_cost_usd", "micro_usd"),
        ({"by": "reported_cost_usd", "unit": "usd"}, "micro_usd"),
        ({"by": "0.000002 * prompt_tokens", "unit": "usd"}, "micro_usd"),
        ({"by": "engine_s", "unit": "seconds"}, "ms"),
        ({"by": "completion_tokens"}, "tokens"),
    ],
)
def test_a_weight_has_a_unit(weight: Any, unit: str) -> None:
    assert read_one(weight=weight).unit == unit


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"weight": "engine_s"}, "say what weight counts: {by: …, unit: …}"),
        ({"weight": "prompt_tokens * reported_cost_usd"}, "say what weight counts"),
        ({"weight": "1"}, "say what weight counts"),
        ({"weight": 1}, "weight is a number over request facts"),
        ({"weight": {"unit": "tokens"}}, "weight is a number over request facts"),
        ({"weight": {"by": "prompt_tokens", "unit": "eur"}}, "unit 'eur' is not one of tokens"),
        ({"weight": {"by": "prompt_tokens", "of": 1}}, "unknown field 'of'"),
        ({"weight": "prompt_tokens > 3"}, "weight:"),
        ({"weight": "sum(prompt_tokens)"}, "weight:"),
        ({"weight": "prompt_tokens", "prometheus": {"gauge": "up"}}, "weight is of requests"),
    ],
)
def test_what_is_no_weight_is_refused(fields: dict[str, Any], said: str) -> None:
    (problem, *_) = refused({"name": "one"} | fields)

    assert problem.startswith("slo.yaml: slo 'one' line 10: ")
    assert said in problem


@pytest.mark.parametrize(
    ("weight", "is_said"),
    [
        ("completion_tokens", True),
        ("prompt_tokens + coalesce(completion_tokens, 0)", True),
        ("coalesce(completion_tokens, prompt_tokens)", True),
        ("coalesce(completion_tokens, prompt_tokens, 100)", False),
        ("coalesce(prompt_tokens, 1) / coalesce(completion_tokens, 1)", True),
        ("abs(-coalesce(prompt_tokens / 2, 1))", False),
    ],
)
def test_a_weight_that_a_failure_may_lack_is_doubted(weight: str, is_said: bool) -> None:
    report = Report()

    (found,) = read_slos([{"name": "one", "weight": weight}], report)

    assert any("an outage may not weigh" in said for said in report.warnings) is is_said
    assert found.weight is not None
    assert may_be_unknown(found.weight.by) is is_said


def test_a_composite_is_no_twin_of_its_component() -> None:
    slos = read_slos([CHAT, {"name": "both", "composite": {"all": ["chat"]}}])

    assert [each.code for each in check_documents(slos)] == []


def test_a_document_without_weights_counts_what_it_always_did() -> None:
    assert read_one(good="ttft_ms <= 2000").definition == "06bd5f29e0775c55"
