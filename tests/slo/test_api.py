from datetime import timedelta

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, generate_latest

from base.clock import ManualClock
from slo.api import router
from slo.counts import SloCounts
from slo.evaluator import Evaluator
from slo.metrics import VerdictGauges
from slo.model import Slo
from slo.parse import parse_clauses, parse_filter
from slo.settings import SloSettings
from slo.tiers import derive
from store.engine import Engine
from tests.slo.made_facts import EPOCH, alive, fact, put

NOW = EPOCH + timedelta(hours=1)
SLO = Slo(
    name="availability",
    objective=0.9,
    window=timedelta(minutes=30),
    good=parse_clauses("outcome = 'good'"),
    tiers=derive(0.9, timedelta(minutes=30)),
    group_by=("tenant",),
    labels={"team": "platform"},
)


@pytest.fixture
def evaluator(engine: Engine) -> Evaluator:
    minute = timedelta(minutes=1)
    alive(engine, [NOW - minute * number for number in range(40)])
    put(
        engine,
        [fact(NOW - minute * number, number) for number in range(1, 20)]
        + [fact(NOW - minute, 100, outcome="bad", outcome_reason="shed")]
        + [fact(NOW - minute, 101, outcome="excluded", outcome_reason="quota")],
    )
    SloCounts(engine, [SLO], SloSettings(), ManualClock(NOW)).ensure()
    return Evaluator(engine, [SLO], SloSettings())


@pytest.fixture
def client(engine: Engine, evaluator: Evaluator) -> TestClient:
    app = FastAPI()
    app.include_router(router(engine, evaluator, ManualClock(NOW)))
    return TestClient(app)


def test_a_verdict_has_every_field_of_the_surface(client: TestClient) -> None:
    (body,) = client.get("/api/v1/slos").json()["slos"]

    assert body["name"] == "availability"
    assert body["group"] == {"tenant": "acme"}
    assert body["objective"] == 0.9
    assert body["window"] == "30m"
    assert (body["good"], body["bad"], body["excluded"], body["total"]) == (19, 1, 1, 20)
    assert body["sli"] == 0.95
    assert body["budget_remaining"] == pytest.approx(0.5)
    assert body["burn"]["30m"] == pytest.approx(0.5)
    assert body["burn"]["10s"] is None
    assert body["coverage"] == 1
    assert body["watermark"] == "2026-01-01T01:00:00.000Z"
    assert body["state"] == "OK"
    assert body["bad_reasons"] == {"shed": 1}
    assert body["bad_in_a_row"] in {0, 1}
    assert set(body["forecast"]) == {"at", "earliest", "latest", "says"}
    assert all(tier["known"] and tier["hold"] for tier in body["tiers"])
    assert body["labels"] == {"team": "platform"}
    assert {tier["name"] for tier in body["tiers"]} == {tier.name for tier in SLO.tiers}


@pytest.mark.parametrize("now", ["2026-01-01T00:55:00Z", "1767228900", "2026-01-01T01:55:00+01:00"])
def test_the_past_is_asked_for_in_any_usual_form(client: TestClient, now: str) -> None:
    body = client.get(f"/api/v1/slos?now={now}").json()

    assert body["now"] == "2026-01-01T00:55:00.000Z"
    assert body["slos"][0]["bad"] == 0


def test_a_time_that_is_none_is_a_bad_request(client: TestClient) -> None:
    answer = client.get("/api/v1/slos?now=yesterday")

    assert answer.status_code == 400
    assert "neither RFC 3339 nor unix seconds" in answer.json()["detail"]


def test_a_series_sums_to_the_verdict(client: TestClient) -> None:
    body = client.get(
        "/api/v1/slos/availability/series?from=2026-01-01T00:00:00Z&to=2026-01-01T02:00:00Z&step=5m"
    ).json()

    (series,) = body["series"]
    assert series["group"] == {"tenant": "acme"}
    assert sum(series["good"]) == 19
    assert sum(series["bad"]) == 1
    assert sum(series["excluded"]) == 1
    assert series["at"] == sorted(series["at"])
    assert all(at.endswith(":00.000Z") for at in series["at"])


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("availability/series?from=0&to=10&step=3s", 400, "is not a multiple of 10s"),
        ("availability/series?from=10&to=10", 400, "from must be before to"),
        ("availability/series?from=0&to=1767228900&step=10s", 400, "take a longer step"),
        ("availability/series?from=0&to=10&step=soon", 400, "is not like 30s"),
        ("none/series?from=0&to=10", 404, "there are: availability"),
    ],
)
def test_a_series_that_cannot_be_made_says_why(
    client: TestClient, query: str, status: int, says: str
) -> None:
    answer = client.get(f"/api/v1/slos/{query}")

    assert answer.status_code == status
    assert says in answer.json()["detail"]


def test_the_gauges_show_what_is_known_and_nothing_else(evaluator: Evaluator) -> None:
    registry = CollectorRegistry()
    gauges = VerdictGauges(registry)

    gauges(evaluator.evaluate(NOW), NOW)

    text = generate_latest(registry).decode()
    group = 'group="tenant=acme",slo="availability"'
    assert f"tokenweir_slo_budget_remaining_ratio{{{group}}} 0.5" in text
    assert f'tokenweir_slo_burn_rate{{{group},window="30m"}} 0.5' in text
    assert f'tokenweir_slo_state{{{group},state="OK"}} 1.0' in text
    assert 'window="10s"' not in text
    assert "NaN" not in text
    gauges([], NOW)
    assert "acme" not in generate_latest(registry).decode()


def test_targets_come_from_the_clauses_that_are_judged(engine: Engine) -> None:
    slo = Slo(
        name="first-token",
        objective=0.95,
        window=timedelta(minutes=30),
        good=parse_clauses("outcome = 'good' and ttft_ms <= 800 + 0.12 * prompt_tokens"),
        tiers=(),
        eligible=parse_filter("route = '/v1/chat/completions'"),
    )
    app = FastAPI()
    evaluator = Evaluator(engine, [slo, SLO], SloSettings())
    app.include_router(router(engine, evaluator, ManualClock(NOW)))

    body = TestClient(app).get("/api/v1/slos/targets?prompt_tokens=1000").json()

    assert body == {
        "targets": [
            {
                "slo": "first-token",
                "objective": 0.95,
                "match": {"route": ["/v1/chat/completions"]},
                "is_exact": True,
                "limits": {"ttft_ms": {"base_ms": 800, "per_token_ms": {"prompt_tokens": 0.12}}},
                "headers": {"x-llm-d-slo-ttft-ms": "920"},
                "overrides": [],
            }
        ]
    }
