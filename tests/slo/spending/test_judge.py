"""Verdicts of SLOs about cost, and the alerts that they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine as Database

from alerts import read as alert_book
from alerts.engine import AlertEngine
from alerts.receivers import open_receivers
from alerts.settings import AlertSettings
from base.clock import ManualClock
from base.db import metadata, open_engine
from base.durations import format_instant
from cost.prices import GpuPrice, PriceBook
from slo.api import router
from slo.calendar import Calendar, Period
from slo.evaluator import Evaluator
from slo.metrics import VerdictGauges
from slo.settings import SloSettings
from slo.spending.judge import CostJudge
from slo.spending.model import PICO, CostOverride, CostSlo, Per
from slo.verdict import State, Verdict
from slo.verdict_body import body_of
from store.engine import Engine
from tests.slo.made_facts import dirty, put
from tests.slo.spending.world import (
    BOOK,
    DAY,
    HOUR,
    MINUTE,
    T0,
    bill,
    by_group,
    cost_slo,
    hear,
    make_judge,
    replica,
    request,
    tier,
)
from tokenweir.spending import Ticks

NOW = T0 + 10 * HOUR
API = {"replica": "", "model": "api-model", "engine_s": None}
PRICE = 1000 * 0.6e-6 + 100 * 2.4e-6  # of a request of API


def api_calls(since: datetime, count: int, first: int = 0, **fields: Any) -> list[dict[str, Any]]:
    return [
        request(since + MINUTE * number, first + number, 1, **(API | fields))
        for number in range(count)
    ]


def judge_one(engine: Engine, slo: CostSlo, at: datetime = NOW, **more: Any) -> Verdict:
    (verdict,) = make_judge(engine, slo, **more).evaluate(at)
    return verdict


def test_a_verdict_says_dollars_in_place_of_an_objective(engine: Engine) -> None:
    put(engine, [
        *api_calls(NOW - HOUR, 30), *api_calls(NOW - HOUR, 10, 30, outcome="bad"),
        *api_calls(NOW - HOUR, 5, 40, outcome="excluded"),
    ])  # fmt: skip
    hear(engine, NOW, 40 * DAY)

    verdict = judge_one(engine, cost_slo("0.002", group_by=("tenant",)))

    cost = verdict.cost
    assert cost is not None
    assert (verdict.objective, verdict.sli, verdict.state) == (None, None, State.OK)
    assert (verdict.good, verdict.bad, verdict.excluded) == (30, 10, 5)
    assert cost.whole.spent_usd == pytest.approx(45 * PRICE)
    assert cost.whole.usd_per_unit == pytest.approx(45 * PRICE / 30)
    assert cost.whole.allowed_usd == pytest.approx(30 * 0.002)
    assert verdict.budget_remaining == pytest.approx(1 - 45 * PRICE / 30 / 0.002)
    assert set(verdict.burn) == set(cost.windows) == {"1h", "6h", "1d", "7d", "30d"}
    assert verdict.burn["1h"] == pytest.approx(45 * PRICE / 30 / 0.002)
    body = body_of(verdict).model_dump(mode="json")
    assert body["cost"]["per"] == "good_request"
    assert body["cost"]["windows"]["1h"]["units"] == 30
    assert body["objective"] is None


def test_gauges_show_dollars(engine: Engine) -> None:
    put(engine, api_calls(NOW - HOUR, 10))
    registry = CollectorRegistry()
    gauges = VerdictGauges(registry)

    gauges(make_judge(engine, cost_slo("0.002", group_by=("tenant",))).evaluate(NOW), NOW)

    def dollars(what: str) -> float | None:
        labels = {"slo": "chat-cost", "group": "tenant=acme", "what": what}
        return registry.get_sample_value("tokenweir_slo_cost_usd", labels)

    assert [dollars(what) for what in ("spent", "allowed", "at_most", "actual")] == pytest.approx(
        [10 * PRICE, 0.02, 0.002, PRICE]
    )
    assert registry.get_sample_value("tokenweir_slo_objective_ratio", {"slo": "chat-cost"}) is None


def test_a_group_with_a_price_of_its_own_has_an_allowance_of_its_own(engine: Engine) -> None:
    put(engine, [*api_calls(NOW - HOUR, 10), *api_calls(NOW - HOUR, 10, 10, tenant="gold")])
    gold = CostOverride(
        (("tenant", ("gold",)),), PICO // 100, PICO, (tier(2, 3 * HOUR, HOUR),), {"plan": "gold"}
    )
    slo = cost_slo("0.002", group_by=("tenant",), overrides=(gold,))

    verdicts = by_group(make_judge(engine, slo).evaluate(NOW))

    allowed = {g: v.cost.whole.allowed_usd for g, v in verdicts.items() if v.cost}
    assert allowed == {("acme",): 0.02, ("gold",): 0.1}
    assert verdicts["gold",].labels == {"plan": "gold"}
    assert "3h" in verdicts["gold",].burn
    assert "3h" not in verdicts["acme",].burn


def test_all_requests_are_units_where_it_says_so(engine: Engine) -> None:
    put(engine, [*api_calls(NOW - HOUR, 3), *api_calls(NOW - HOUR, 2, 3, outcome="bad")])

    verdict = judge_one(engine, cost_slo("0.002", Per.REQUEST, ()))

    assert verdict.cost is not None
    assert verdict.cost.whole.units == 5


def test_spending_is_as_of_the_whole_minute(engine: Engine) -> None:
    put(engine, api_calls(NOW, 3))

    verdict = judge_one(engine, cost_slo(group_by=()), NOW + timedelta(seconds=119))

    assert verdict.cost is not None
    assert verdict.at == NOW + timedelta(seconds=119)
    assert verdict.cost.at == NOW + MINUTE
    assert verdict.cost.whole.units == 1


def test_without_prices_nothing_is_known_and_nothing_is_zero(engine: Engine) -> None:
    put(engine, api_calls(NOW - HOUR, 30))
    hear(engine, NOW, 40 * DAY)

    verdict = judge_one(engine, cost_slo(group_by=("tenant",)), book=PriceBook())

    assert verdict.cost is not None
    assert (verdict.state, verdict.budget_remaining) == (State.STALE, None)
    assert (verdict.cost.whole.spent_usd, verdict.cost.whole.usd_per_unit) == (None, None)
    assert (verdict.cost.unpriced_requests, verdict.cost.unpriced_share) == (30, 1.0)
    assert "30 of 30 requests have no price" in (verdict.problem or "")
    assert set(verdict.burn.values()) == {None}


def test_another_price_book_is_another_bill_from_its_date_on(engine: Engine) -> None:
    put(engine, [request(T0 - 2 * HOUR, 0, 3600), request(T0 + 2 * HOUR, 1, 3600)])
    replica(engine, "r0", T0 - 3 * HOUR, T0 + 4 * HOUR)
    dearer = replace(
        BOOK, gpus=(*BOOK.gpus, GpuPrice("h100", date(2026, 3, 10), Decimal("4.98"), Decimal(0)))
    )
    slo = cost_slo(group_by=())

    before, after = (judge_one(engine, slo, book=book) for book in (BOOK, dearer))

    assert before.cost is not None
    assert after.cost is not None
    each = 4 * 2.49
    assert before.cost.whole.spent_usd == pytest.approx(2 * each * 2 / 3)
    assert after.cost.whole.spent_usd == pytest.approx(3 * each * 2 / 3)


def test_a_late_request_changes_a_closed_hour(engine: Engine) -> None:
    put(engine, api_calls(T0, 5))
    judge = make_judge(engine, cost_slo(group_by=()))
    judge.evaluate(NOW)
    late = api_calls(T0, 4, 5)
    put(engine, late)

    untold = judge.evaluate(NOW)
    judge.refresh(dirty(late), 2)
    told = judge.evaluate(NOW)

    assert [each.cost.whole.units for each in (*untold, *told) if each.cost] == [5, 9]


def test_a_tick_shows_the_last_spending_while_changed_days_are_read_anew(engine: Engine) -> None:
    put(engine, [request for day in range(5) for request in api_calls(T0 - DAY * day, 3, day * 9)])
    judge = make_judge(engine, cost_slo(group_by=()))
    before = _settled(judge, NOW)
    changed = [api_calls(T0 - DAY * day, 1, 900 + day) for day in (0, 2, 4)]
    put(engine, [each for (each,) in changed])
    judge.refresh(dirty([each for (each,) in changed]), 2)

    (meanwhile,) = judge.evaluate(NOW + MINUTE, is_tick=True)
    after = _settled(judge, NOW + MINUTE)

    assert meanwhile.cost is not None
    assert meanwhile.at == NOW + MINUTE
    assert (meanwhile.cost.at, meanwhile.cost.whole.units) == (NOW, before)
    assert (before, after) == (15, 18)


def test_a_question_about_the_minute_of_a_tick_has_its_answer_until_a_closed_hour_changes(
    engine: Engine,
) -> None:
    put(engine, api_calls(T0, 3))
    judge = make_judge(engine, cost_slo(group_by=()))
    _settled(judge, NOW)
    late, recent = api_calls(T0, 1, 50), api_calls(NOW - 5 * MINUTE, 1, 60)
    put(engine, [*late, *recent])

    judge.refresh(dirty(recent), 2)
    same = judge.evaluate(NOW)
    judge.refresh(dirty(late), 3)
    other = judge.evaluate(NOW)

    assert [each.cost.whole.units for each in (*same, *other) if each.cost] == [3, 5]


def test_history_says_what_was_spent_by_each_midnight(engine: Engine) -> None:
    put(engine, [request for day in range(4) for request in api_calls(T0 - DAY * day, 5, day * 9)])
    judge = make_judge(engine, cost_slo(group_by=("tenant",)))
    judge.evaluate(NOW)

    ((group, points),) = judge.history("chat-cost", NOW).items()

    assert group == ("acme",)
    assert [at for at, _ in points][-3:] == [T0 - 2 * DAY, T0 - DAY, T0]
    assert [usd for _, usd in points][-3:] == pytest.approx([5 * PRICE, 10 * PRICE, 15 * PRICE])
    assert (len(points), points[0][1]) == (30, 0)
    assert judge.history("nobody", NOW) == {}


def _settled(judge: CostJudge, at: datetime) -> float:
    """Tick until all of the window was read."""
    for _ in range(10):
        (verdict,) = judge.evaluate(at, is_tick=True)
    assert verdict.cost is not None
    assert (verdict.cost.at, verdict.problem) == (at, None)
    return verdict.cost.whole.units


def test_money_has_no_series_of_good_and_bad(engine: Engine) -> None:
    evaluator = Evaluator(engine, (), SloSettings(), costs=make_judge(engine, cost_slo()))
    app = FastAPI()
    app.include_router(router(engine, evaluator, ManualClock(NOW)))
    span = {"from": format_instant(T0), "to": format_instant(NOW)}

    answer = TestClient(app).get("/api/v1/slos/chat-cost/series", params=span)

    assert answer.status_code == 404
    assert "'chat-cost' is about cost" in answer.json()["detail"]


def test_a_contracts_month_begins_in_its_zone(engine: Engine) -> None:
    berlin = Calendar(Period.MONTH, "Europe/Berlin")
    kolkata = Calendar(Period.DAY, "Asia/Kolkata")  # at half past an hour of UTC
    begins = datetime(2026, 2, 28, 23, tzinfo=UTC)
    put(engine, [
        *api_calls(begins - 3 * MINUTE, 3), *api_calls(begins, 5, 3),
        *api_calls(T0 - 6 * HOUR + 25 * MINUTE, 10, 8),
    ])  # fmt: skip
    slo = cost_slo("0.001", group_by=("tenant",), calendars=(berlin, kolkata), window=DAY)

    month, day = judge_one(engine, slo).periods

    assert (month.start, month.end) == (begins, datetime(2026, 3, 31, 22, tzinfo=UTC))
    assert (month.good, day.good) == (15, 5)
    assert day.start == T0 - 6 * HOUR + 30 * MINUTE
    assert month.cost is not None
    assert month.cost.spent_usd == bill(engine, begins, NOW, ("tenant",)).rows[0].cost_usd
    assert month.budget_remaining == pytest.approx(1 - PRICE / 0.001)


def test_a_period_that_begins_now_is_untouched(engine: Engine) -> None:
    put(engine, api_calls(T0 - HOUR, 5))

    slo = cost_slo(group_by=(), calendars=(Calendar(Period.DAY),))
    (day,) = judge_one(engine, slo, T0).periods

    assert (day.good, day.budget_remaining) == (0, None)


def test_a_window_longer_than_requests_are_kept_says_so(engine: Engine) -> None:
    put(engine, api_calls(T0, 5))

    verdict = judge_one(engine, cost_slo(group_by=(), window=90 * DAY), kept=31 * DAY)

    assert "requests are kept for 31d (store.keep_facts)" in (verdict.problem or "")


class TestTasks:
    """A task is completed, once, by its last request, if that is good."""

    def units(self, engine: Engine, facts: list[dict[str, Any]], at: datetime = NOW) -> float:
        put(engine, facts)
        verdict = judge_one(engine, cost_slo("1", Per.TASK, ("tenant",)), at)
        assert verdict.cost is not None
        return verdict.cost.whole.units

    def test_of_many_requests_one_task(self, engine: Engine) -> None:
        assert self.units(engine, api_calls(NOW - 3 * HOUR, 40, task_id="t")) == 1

    def test_that_ends_in_a_failure_is_not_completed(self, engine: Engine) -> None:
        bad = api_calls(NOW - 2 * HOUR, 1, 3, task_id="t", outcome="bad")

        assert (
            self.units(engine, [*api_calls(NOW - 2 * HOUR - 3 * MINUTE, 3, task_id="t"), *bad]) == 0
        )

    def test_over_the_edge_of_an_hour_is_one_task(self, engine: Engine) -> None:
        early = api_calls(T0 + HOUR - 2 * MINUTE, 1, 0, task_id="t")

        assert self.units(engine, [*early, *api_calls(T0 + HOUR + MINUTE, 1, 1, task_id="t")]) == 1

    def test_of_two_tenants_with_one_name_is_two(self, engine: Engine) -> None:
        both = [
            each | {"tenant": tenant}
            for tenant, first in (("acme", 0), ("globex", 5))
            for each in api_calls(T0, 2, first, task_id="t")
        ]
        put(engine, both)

        verdicts = by_group(make_judge(engine, cost_slo("1", Per.TASK, ("tenant",))).evaluate(NOW))

        assert {g: v.cost.whole.units for g, v in verdicts.items() if v.cost} == {
            ("acme",): 1, ("globex",): 1,
        }  # fmt: skip

    def test_taken_up_again_later_is_another(self, engine: Engine) -> None:
        again = api_calls(T0 + 2 * HOUR, 1, 1, task_id="t")

        assert self.units(engine, [*api_calls(T0, 1, task_id="t"), *again]) == 2

    def test_is_seen_as_of_the_instant_that_is_asked_about(self, engine: Engine) -> None:
        facts = api_calls(NOW - HOUR, 1, task_id="t")
        facts += api_calls(NOW - 5 * MINUTE, 1, 1, task_id="t", outcome="bad")

        assert self.units(engine, facts, NOW - 30 * MINUTE) == 1
        assert self.units(engine, facts, NOW) == 0

    def test_requests_of_no_task_cost_it_nothing(self, engine: Engine) -> None:
        put(engine, [*api_calls(T0, 3, task_id="t"), *api_calls(T0, 9, 3)])

        verdict = judge_one(engine, cost_slo("1", Per.TASK, ("tenant",)))

        assert verdict.cost is not None
        assert verdict.cost.whole.spent_usd == pytest.approx(3 * PRICE)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = open_engine(f"sqlite:///{tmp_path}/control.db")
    metadata.create_all(opened)
    yield opened
    opened.dispose()


def test_an_alert_about_dollars_fires_and_resolves(engine: Engine, db: Database) -> None:
    put(engine, [
        *api_calls(NOW - 3 * HOUR, 100, outcome="good"),
        *api_calls(NOW - 3 * HOUR, 180, 100, prompt_tokens=2_000_000),
    ])  # fmt: skip
    hear(engine, NOW + 30 * HOUR, 40 * DAY)
    tiers = (tier(1.5, 6 * HOUR, HOUR),)
    slo = cost_slo("0.5", group_by=("tenant",), tiers=tiers)
    clock = ManualClock(NOW)
    receivers = [{"name": "pager", "type": "webhook", "url": "http://pager.test/hook",
                  "secret": "whsec_dG9rZW53ZWlyLXRlc3Qtc2VjcmV0LTAxMjM0NTY3"}]  # fmt: skip
    settings = AlertSettings.model_validate(
        {"receivers": receivers, "external_url": "https://slo.example", "group_wait": "0s",
         "group_interval": "0s"}
    )  # fmt: skip
    alerting = AlertEngine(db, open_receivers(settings), settings, clock)
    evaluator = Evaluator(engine, (), SloSettings(), costs=make_judge(engine, slo))
    ticks = Ticks(evaluator)

    turns: list[tuple[str, str]] = []
    for minutes in range(0, 8 * 60, 30):
        clock.jump(NOW + MINUTE * minutes)
        verdicts = ticks.evaluate(clock.now())
        edges = alerting.tick(verdicts, clock.now(), {"chat-cost"})
        turns += [(str(edge.turn), edge.slo) for edge in edges]
        if minutes == 0:
            (alert,) = alert_book.active(db, clock.now())
            assert alert.annotations["summary"] == (
                "chat-cost{tenant=acme}: it spends 1.54 times what it may: $0.772 per good "
                "request, at most $0.5, over 6h (ticket)"
            )

    assert turns == [("fired", "chat-cost"), ("clearing", "chat-cost"), ("resolved", "chat-cost")]
