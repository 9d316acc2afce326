"""What is said of SLOs that weigh requests: verdicts, causes, counters, findings, exports."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from base.clock import ManualClock
from base.errors import BadInput
from slo.causes import read_causes
from slo.counters import BORN_AT_ZERO, RequestCounters
from slo.counts import SloCounts
from slo.documents import read
from slo.evaluator import Evaluator
from slo.export import to_openslo, to_rules
from slo.imports.openslo import import_plain
from slo.lint_data import Sightings, check_data
from slo.outlook import request_weight, spent_of
from slo.settings import SloSettings
from slo.targets import targets_of
from slo.verdict import State, Verdict
from slo.verdict_body import body_of
from store.engine import Engine
from tests.slo.made_facts import EPOCH, alive, dirty, fact, put
from tests.slo.made_slos import read_slos

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NOW = EPOCH + timedelta(hours=5)
SLOS = {
    each.name: each
    for each in read_slos(
        [
            {"name": "tokens", "weight": "completion_tokens", "good": "ttft_ms <= 2000",
             "calendar": "day"},
            {"name": "dollars", "weight": {"by": "completion_tokens * 0.00002", "unit": "usd"}},
            {"name": "answered"},
            {"name": "first", "eligible": "streaming", "good": {"token": "ttft_ms <= 2000"}},
            {"name": "sum", "composite": {"sum": {"answered": 3, "first": 1}}},
            {"name": "all", "composite": {"all": ["answered", "first"]}},
        ]
    )
}  # fmt: skip


def judged(engine: Engine, facts: list[dict[str, Any]]) -> dict[str, Verdict]:
    put(engine, facts)
    alive(engine, [NOW - n * MINUTE for n in range(300)])
    slos = list(SLOS.values())
    SloCounts(engine, slos, SloSettings(), ManualClock(NOW)).ensure()
    return {each.slo: each for each in Evaluator(engine, slos, SloSettings()).evaluate(NOW)}


def requests(count: int, first: int, ago: timedelta, **fields: Any) -> list[dict[str, Any]]:
    step = timedelta(seconds=1)
    return [fact(NOW - ago + n * step, first + n, **fields) for n in range(count)]


def test_a_verdict_counts_in_its_unit_and_knows_the_requests(engine: Engine) -> None:
    found = judged(
        engine,
        [
            *requests(20, 0, 30 * MINUTE, completion_tokens=100, ttft_ms=10.0),
            *requests(3, 100, 20 * MINUTE, completion_tokens=900, ttft_ms=9000.0, streaming=True),
            *requests(4, 200, 10 * MINUTE, outcome="bad", outcome_reason="timeout"),
            *requests(1, 300, 5 * MINUTE, outcome="excluded", completion_tokens=7),
        ],
    )

    tokens = body_of(found["tokens"])
    assert (tokens.unit, tokens.good, tokens.bad, tokens.excluded) == ("tokens", 2000, 2700, 7)
    assert tokens.requests.model_dump() == {
        "good": 20, "bad": 7, "excluded": 1, "unweighed": 4, "heaviest": 900,
    }  # fmt: skip
    assert tokens.sli == pytest.approx(2000 / 4700)
    assert tokens.bad_reasons == {"ttft_ms <= 2000": 2700}
    assert [(each.good, each.bad) for each in found["tokens"].periods] == [(2000, 2700)]
    assert tokens.problem is not None
    assert tokens.problem.startswith("4 of 27 judged requests have no known weight")
    dollars = body_of(found["dollars"])
    assert (dollars.unit, dollars.good, dollars.bad) == ("micro_usd", 4700 * 20, 0)
    both = body_of(found["sum"])
    assert (both.unit, both.good, both.bad) == ("verdicts", 23 * 3, 3 + 4 * 3)
    assert both.bad_reasons == {"first: token": 3, "timeout": 12}
    assert (both.requests.good, both.requests.bad, both.requests.heaviest) == (20, 7, 4)
    every = body_of(found["all"])
    assert (every.unit, every.good, every.bad) == ("requests", 20, 7)
    assert every.bad_reasons == {"first: token": 3, "timeout": 4}
    assert every.requests.good == 20
    assert every.problem is None


def test_a_few_heavy_failures_do_not_page_and_many_do(engine: Engine) -> None:
    calm = requests(400, 0, 6 * MINUTE, completion_tokens=100, ttft_ms=10.0)
    heavy = requests(5, 500, MINUTE / 4, completion_tokens=20_000, ttft_ms=9000.0)

    few = judged(engine, [*calm, *heavy])["tokens"]

    assert few.budget_remaining is not None
    assert few.budget_remaining < 0
    assert few.state is State.EXHAUSTED
    many = judged(engine, requests(100, 1000, MINUTE, completion_tokens=20_000, ttft_ms=9000.0))[
        "tokens"
    ]
    assert many.state is State.BURNING


def test_causes_are_shares_of_weight(engine: Engine) -> None:
    facts = [
        *requests(60, 0, 20 * MINUTE, completion_tokens=10, ttft_ms=1.0, replica="r0"),
        *requests(60, 100, 15 * MINUTE, completion_tokens=10, ttft_ms=5000.0, replica="r0"),
        *requests(20, 200, 15 * MINUTE, completion_tokens=9000, ttft_ms=5000.0, replica="r1"),
    ]
    put(engine, facts)

    by_tokens = read_causes(engine, SLOS["tokens"], [()], NOW, HOUR)[()]
    by_requests = read_causes(engine, SLOS["all"], [()], NOW, HOUR)

    assert [(each.dimension, each.value) for each in by_tokens.suspects] == []  # r1 is all there is
    assert by_tokens.reasons == (("ttft_ms <= 2000", 1.0),)
    assert by_requests == {}


def test_counters_show_weights_apart_from_requests(engine: Engine) -> None:
    clock, registry = ManualClock(NOW), CollectorRegistry()
    slos = (SLOS["tokens"], SLOS["answered"])
    counts = SloCounts(engine, slos, SloSettings(), clock)
    counts.ensure()
    evaluator = Evaluator(engine, slos, SloSettings())
    counters = RequestCounters(engine, evaluator, clock.now, registry)
    generate_latest(registry)
    alive(engine, [NOW, NOW + MINUTE])
    facts = requests(3, 0, -MINUTE, completion_tokens=50, ttft_ms=1.0)
    put(engine, facts)
    counts.refresh(dirty(facts), 2)
    clock.advance(2 * MINUTE)
    for _ in range(2):
        counters(evaluator.evaluate(clock.now()), clock.now())
        clock.advance(BORN_AT_ZERO)

    text = generate_latest(registry).decode()

    assert 'tokenweir_slo_weight_total{result="good",slo="tokens",unit="tokens"} 150.0' in text
    assert 'tokenweir_slo_requests_total{result="good",slo="answered"} 3.0' in text
    assert 'slo="tokens",unit="tokens"' in text
    assert 'tokenweir_slo_requests_total{result="good",slo="tokens"' not in text


def test_weights_that_few_requests_have_are_found(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text(
        "{kind: slo, name: a, objective: 90, weight: completion_tokens}\n---\n"
        "{kind: slo, name: b, objective: 90, weight: '0.001 * completion_tokens'}\n---\n"
        "{kind: slo, name: c, objective: 90, composite: {all: [a]}, "
        "weight: {by: attempts, unit: tokens}}"
    )
    loaded = read([tmp_path])
    assert loaded.problems == ()
    put(engine, requests(10, 0, HOUR, completion_tokens=5, ttft_ms=1.0))
    put(engine, requests(5, 100, HOUR, outcome="bad"))
    sightings = Sightings(loaded.slos)

    sightings.look(engine, "facts FINAL")

    found = check_data(loaded.slos, sightings, None)
    assert {(each.slo, each.code) for each in found if each.code.startswith("weight")} == {
        ("a", "weight-unknown"), ("b", "weight-unknown"), ("b", "weight-zero"),
    }  # fmt: skip
    assert {each.slo for each in found} <= {"a", "b"}


@pytest.mark.parametrize("name", ["tokens", "sum"])
def test_rules_are_refused_where_they_could_not_judge_alike(name: str) -> None:
    with pytest.raises(BadInput, match="heaviest request of each window"):
        to_rules([SLOS[name]])


def test_all_is_exported_as_rules_like_any_slo() -> None:
    assert to_rules([SLOS["all"]])["groups"]


def test_a_weight_comes_back_from_openslo() -> None:
    document = {"kind": "slo", "name": "tokens", "objective": 90, "weight": "completion_tokens"}
    (slo,) = read_slos([document])

    back = import_plain(to_openslo(slo, document))

    assert back["weight"] == "completion_tokens"


def test_composites_leave_limits_to_their_components() -> None:
    assert targets_of(SLOS["first"]).limits
    assert not targets_of(SLOS["all"]).limits
    assert not targets_of(SLOS["sum"]).limits


def test_a_forecast_counts_requests_of_the_mean_weight(engine: Engine) -> None:
    found = judged(
        engine,
        [
            *requests(90, 0, 30 * MINUTE, completion_tokens=100, ttft_ms=10.0),
            *requests(10, 100, 20 * MINUTE, completion_tokens=100, ttft_ms=9000.0),
        ],
    )

    assert request_weight(found["answered"]) == 1
    assert request_weight(found["tokens"]) == 100
    spent = spent_of(found["tokens"])
    assert (spent.good, spent.bad) == (90, 10)
