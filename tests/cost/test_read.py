"""The ledger read from a real engine equals one recounted by hand."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from base.clock import ManualClock
from base.errors import BadInput
from cost.api import router
from cost.money import PICO
from cost.prices import GpuPrice, Hardware, PriceBook, TokenPrice
from cost.read import Window, parse_by, read_ledger
from cost.report import report
from cost.requests import Run, price_requests

T0 = datetime(2026, 11, 20, 10, tzinfo=UTC)
DAY = Window(T0, T0 + timedelta(hours=24))
BOOK = PriceBook(
    name="test",
    gpus=(GpuPrice("h100", date(2026, 1, 1), Decimal("2.49"), Decimal("0.30")),),
    tokens=(TokenPrice("api-model", date(2026, 1, 1), Decimal("0.6"), Decimal("2.4")),),
)


def fact(start: datetime, took_s: float, engine_s: float | None, **changes: Any) -> dict[str, Any]:
    row = {
        "start": start,
        "end": start + timedelta(seconds=took_s),
        "tenant": "acme",
        "route": "/v1/chat/completions",
        "model": "llama",
        "replica": "r0",
        "user_id": "",
        "feature": "",
        "outcome": "good",
        "engine_s": engine_s,
        "prompt_tokens": 1000,
        "cached_tokens": 0,
        "completion_tokens": 100,
    }
    return {**row, **changes}


def insert_facts(engine: Any, facts: list[dict[str, Any]]) -> None:
    names = [*facts[0], "request_id", "version"]
    values = ", ".join(
        "(" + ", ".join(literal(v) for v in (*f.values(), str(i), 1)) + ")"
        for i, f in enumerate(facts)
    )
    engine.execute(f"INSERT INTO facts ({', '.join(names)}) VALUES {values}")


def insert_alive(
    engine: Any, replica: str, start: datetime, end: datetime, gpu_type: str = "h100"
) -> None:
    row = ["vllm", replica, "engine", "llama", gpu_type, 4, start, end]
    engine.execute(f"INSERT INTO alive VALUES ({', '.join(literal(v) for v in row)})")


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f"toDateTime64('{value:%Y-%m-%d %H:%M:%S.%f}', 9, 'UTC')"
    return f"'{value}'" if isinstance(value, str) else repr(value)


def some_facts(seed: int, count: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    out = []
    for _ in range(count):
        took = chance.uniform(0.5, 600)
        out.append(
            fact(
                T0 + timedelta(seconds=chance.randrange(0, 4 * 3600)),
                took,
                round(took * chance.uniform(0.2, 1.4), 6),
                tenant=chance.choice(["acme", "globex", "initech"]),
                replica=chance.choice(["r0", "r1"]),
                outcome=chance.choice(["good", "good", "bad"]),
            )
        )
    return out


def test_an_hour_half_used_by_one_request_is_charged_to_it_and_half_idle(engine: Any) -> None:
    insert_alive(engine, "r0", T0, T0 + timedelta(hours=1))
    insert_facts(engine, [fact(T0 + timedelta(minutes=10), 2000, 1800)])

    answer = report(read_ledger(engine, BOOK, DAY), ("tenant", "route"))

    assert answer.rows[0].cost_usd == pytest.approx(4 * 2.49 / 2, abs=1e-9)
    assert answer.totals.idle_usd == pytest.approx(4 * 2.49 / 2, abs=1e-9)
    assert answer.totals.overhead_usd == pytest.approx(4 * 0.30, abs=1e-9)


def test_overlapping_alive_records_are_counted_once(engine: Any) -> None:
    for minutes in (0, 10, 10, 20):
        start = T0 + timedelta(minutes=minutes)
        insert_alive(engine, "r0", start, start + timedelta(minutes=15))

    totals = report(read_ledger(engine, BOOK, DAY, ("tenant",)), ("tenant",)).totals

    assert totals.gpu_hours == pytest.approx(4 * 35 / 60)


def test_used_plus_idle_is_the_gpu_bill_for_every_dimension(engine: Any) -> None:
    insert_alive(engine, "r0", T0, T0 + timedelta(hours=5))
    insert_alive(engine, "r1", T0 + timedelta(minutes=30), T0 + timedelta(hours=5))
    insert_facts(engine, some_facts(seed=1, count=400))

    for by in (("tenant",), ("tenant", "route"), ("replica",), ("model", "user_id", "feature")):
        totals = report(read_ledger(engine, BOOK, DAY, by), by).totals  # type: ignore[arg-type]
        assert totals.gpu_bill_usd == pytest.approx(9.5 * 4 * 2.49, abs=1e-9)
        assert totals.difference_usd == 0


def test_each_tenant_gets_what_a_recount_by_hand_gives(engine: Any) -> None:
    facts = some_facts(seed=2, count=150)
    for replica in ("r0", "r1"):
        insert_alive(engine, replica, T0 - timedelta(hours=1), T0 + timedelta(hours=8))
    insert_facts(engine, facts)

    ledger = read_ledger(engine, BOOK, DAY, ("tenant",))

    for (tenant,), exact in recount(facts).items():
        assert ledger.accounts[tenant,].gpu / PICO == pytest.approx(float(exact), abs=1e-6)


def test_request_costs_add_up_to_their_tenants_charge(engine: Any) -> None:
    facts = some_facts(seed=3, count=100)
    for replica in ("r0", "r1"):
        insert_alive(engine, replica, T0, T0 + timedelta(hours=8))
    insert_facts(engine, facts)
    runs = [Run(**{n: f[n] for n in Run.__slots__}) for f in facts]

    costs = price_requests(engine, BOOK, runs)

    assert {c.basis for c in costs} == {"gpu"}
    charged = report(read_ledger(engine, BOOK, DAY), ("tenant", "route")).totals.used_usd
    assert sum(c.usd or 0 for c in costs) == pytest.approx(charged, abs=1e-9)


def test_what_a_request_costs_does_not_depend_on_the_window_that_is_asked_for(engine: Any) -> None:
    insert_alive(engine, "r0", T0 + timedelta(hours=20), T0 + timedelta(hours=21))
    insert_facts(engine, [fact(T0, 2000, 1800), fact(T0 + timedelta(hours=20), 60, 50)])
    windows = [DAY, Window(T0, T0 + timedelta(hours=2))]

    bills = [read_ledger(engine, BOOK, window).bills for window in windows]

    place = ("r0", int(T0.timestamp()) // 3600)
    assert bills[0][place] == bills[1][place]
    assert bills[0][place].busy > 0


def test_a_replica_without_alive_records_is_inferred_and_marked(engine: Any) -> None:
    book = PriceBook(gpus=BOOK.gpus, hardware=(Hardware("llama", date(2026, 1, 1), "h100", 2),))
    insert_facts(
        engine,
        [
            fact(T0 + timedelta(minutes=10), 60, 60),
            fact(T0 + timedelta(minutes=40), 60, 60),
            fact(T0 + timedelta(minutes=75), 60, 60),
        ],
    )

    totals = report(read_ledger(engine, book, DAY, ("tenant",)), ("tenant",)).totals

    # From 10 minutes past the hour to 16 minutes past the next: it was there in between.
    assert totals.gpu_hours == totals.inferred_gpu_hours == pytest.approx(2 * 66 / 60)


def test_what_nothing_prices_is_null_and_listed(engine: Any) -> None:
    insert_facts(engine, [fact(T0, 5, None, replica="", model="mystery")])

    answer = report(read_ledger(engine, BOOK, DAY), ("tenant", "route"))

    assert [row.kind for row in answer.rows] == ["used", "unpriced"]
    assert [row.cost_usd for row in answer.rows] == [None, None]
    assert answer.totals.unpriced_requests == 1


def test_a_request_is_priced_by_its_tokens_where_its_gpu_has_no_price(engine: Any) -> None:
    insert_facts(engine, [fact(T0, 5, None, replica="", model="api-model")])
    run = Run(T0, T0 + timedelta(seconds=5), "api-model", "", None, 1000, None, 100)
    unknown = Run(T0, T0 + timedelta(seconds=5), "mystery", "", None, 1000, None, 100)

    costs = price_requests(engine, BOOK, [run, unknown])

    assert (costs[0].usd, costs[0].basis) == (pytest.approx(0.00084), "tokens")
    assert (costs[1].usd, costs[1].basis) == (None, None)


def test_by_names_the_dimension_it_does_not_know() -> None:
    assert parse_by("route, tenant") == ("tenant", "route")
    with pytest.raises(BadInput, match="planet"):
        parse_by("tenant,planet")


def test_the_endpoint_answers_rows_and_totals_that_reconcile(engine: Any) -> None:
    insert_alive(engine, "r0", T0, T0 + timedelta(hours=1))
    insert_facts(engine, [fact(T0, 1800, 1800), fact(T0, 60, 60, tenant="", outcome="bad")])
    app = FastAPI()
    app.include_router(router(engine, BOOK, ManualClock(T0 + timedelta(hours=2))))
    client = TestClient(app)

    answer = client.get("/api/v1/cost", params={"by": "tenant"}).json()

    rows = {(row["kind"], row["tenant"]): row for row in answer["rows"]}
    assert set(rows) == {("used", "acme"), ("used", None), ("idle", None), ("overhead", None)}
    total = sum(row["cost_usd"] for row in answer["rows"])
    assert total == pytest.approx(4 * (2.49 + 0.30), abs=1e-9)
    assert answer["totals"]["cost_usd"] == pytest.approx(total, abs=1e-9)
    assert rows["used", None]["cost_per_good_usd"] is None
    assert rows["used", "acme"]["cost_per_good_usd"] == rows["used", "acme"]["cost_usd"]


@pytest.mark.parametrize(
    "params", [{"by": "planet"}, {"from": "yesterday"}, {"from": "200", "to": "100"}]
)
def test_a_bad_question_is_a_400_that_says_why(engine: Any, params: dict[str, str]) -> None:
    app = FastAPI()
    app.include_router(router(engine, BOOK, ManualClock(T0)))

    answer = TestClient(app).get("/api/v1/cost", params=params)

    assert answer.status_code == 400
    assert answer.json()["detail"]


def recount(facts: list[dict[str, Any]]) -> dict[tuple[str], Fraction]:
    """Charge each second of each hour by the definition, with no shared code."""
    places: dict[tuple[str, int], list[tuple[str, float, float, Fraction]]] = defaultdict(list)
    for row in facts:
        end = row["end"].timestamp()
        start = max(row["start"].timestamp(), end - row["engine_s"])
        for hour in range(int(start // 3600), int(end // 3600) + 1):
            low, high = max(start, hour * 3600), min(end, (hour + 1) * 3600)
            if low < high:
                spent = Fraction(row["engine_s"]) * Fraction(high - low) / Fraction(end - start)
                places[row["replica"], hour].append((row["tenant"], low, high, spent))
    out: dict[tuple[str], Fraction] = defaultdict(Fraction)
    for runs in places.values():
        busy, reached = Fraction(0), 0.0
        for _, low, high, _ in sorted(runs, key=lambda r: r[1]):
            busy += Fraction(max(0.0, high - max(low, reached)))
            reached = max(reached, high)
        cost = busy / 3600 * 4 * Fraction("2.49")
        everyone = sum(run[3] for run in runs)
        for tenant, _, _, spent in runs:
            out[(tenant,)] += cost * spent / everyone
    return out


def test_ledgers_of_adjoining_hours_add_up_to_that_of_all_of_them(engine: Any) -> None:
    insert_alive(engine, "r0", T0, T0 + timedelta(hours=5))
    facts = some_facts(seed=6, count=200)
    unsent = [fact(T0 + timedelta(minutes=59), 300, 100, replica="r9", model="api-model")]
    across = [fact(T0 + timedelta(minutes=58), 600, 300, model="api-model")]  # runs from 11:03 on
    insert_facts(engine, [*facts, *unsent, *across])

    whole = read_ledger(engine, BOOK, Window(T0, T0 + timedelta(hours=5)), ("tenant",))
    parts = [
        read_ledger(engine, BOOK, Window(start, start + timedelta(hours=1)), ("tenant",))
        for start in (T0 + timedelta(hours=number) for number in range(5))
    ]

    for key, account in whole.accounts.items():
        mine = [part.accounts[key] for part in parts if key in part.accounts]
        for name in ("total", "requests", "good", "unpriced_requests", "engine_ns"):
            assert sum(getattr(each, name) for each in mine) == getattr(account, name)


def test_what_ran_on_a_priced_gpu_after_the_window_is_not_priced_by_its_tokens(
    engine: Any,
) -> None:
    insert_alive(engine, "r0", T0, T0 + timedelta(hours=2))
    insert_facts(engine, [fact(T0 + timedelta(minutes=58), 600, 300, model="api-model")])

    totals = report(read_ledger(engine, BOOK, Window(T0, T0 + timedelta(hours=1))), ("a", "b"))

    assert (totals.totals.token_usd, totals.totals.unpriced_requests) == (0, 0)
    assert totals.totals.requests == 1
