"""Pages and API read the same numbers that a plain query over the facts gives."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from cost.read import Window
from dashboards import budget_figure
from dashboards.budgets import read_burndown
from dashboards.facts import Cursor, RequestQuery, list_requests
from dashboards.memo import Memo
from dashboards.pages import cost, overview, slo_table
from dashboards.queries import read_names, read_traffic
from dashboards.reader import Reader
from dashboards.state import ViewState, parse_search
from slo.exclusion import Exclusion
from slo.verdict import CostVerdict, Spend

TRACE = "aa" * 16
REQUEST_FIELDS = {
    *("request_id", "trace_id", "tenant", "route", "model", "replica", "outcome"),
    *("outcome_reason", "start", "duration_ms", "ttft_ms", "tpot_ms", "queue_ms"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "attempts", "sources"),
}


@pytest.fixture
def deps(site: Any) -> Any:
    return site[1]


@pytest.fixture
def client(site: Any) -> TestClient:
    return TestClient(site[0])


@pytest.mark.parametrize("hours", [1, 24, 24 * 30])
def test_traffic_from_rollups_is_a_count_of_the_facts(deps: Any, hours: int) -> None:
    now = deps.clock.now()
    window = Window(now - timedelta(hours=hours), now)

    traffic = read_traffic(deps.engine, window, {"tenant": "acme"}, now)

    # Whole steps: the first one may begin before the window does. The spans of the agent's trace
    # were added after the rollups were made.
    rows = deps.engine.rows(
        "SELECT toString(outcome) AS outcome, toInt64(count()) AS n FROM facts FINAL WHERE "
        "tenant = 'acme' AND start >= {from:DateTime64(6, 'UTC')} AND start < {to:DateTime64(6, "
        "'UTC')} AND lower(hex(trace_id)) != {trace:String} GROUP BY outcome",
        {"from": traffic.frame.index[0].to_pydatetime(), "to": now, "trace": TRACE},
    )
    counted = {row["outcome"]: row["n"] for row in rows}
    assert counted == {
        name: n for name in ("good", "bad", "excluded") if (n := getattr(traffic.totals, name))
    }


def test_a_time_in_which_nothing_was_heard_has_no_rate(deps: Any) -> None:
    now = deps.clock.now()
    long_ago = Window(now - timedelta(days=200), now - timedelta(days=190))

    traffic = read_traffic(deps.engine, long_ago, {}, now)

    assert traffic.frame["good"].isna().all()
    assert traffic.totals.requests == 0
    assert traffic.totals.ttft_p95_ms is None


def test_names_for_the_menus_leave_out_the_unknown(deps: Any) -> None:
    names = read_names(Reader(deps, Memo(deps.clock)), ViewState(range="30d"))

    assert names["tenant"] == ["acme", "globex", "initech", "umbrella"]


def test_following_the_cursor_gives_every_request_once(deps: Any) -> None:
    now = deps.clock.now()
    seen: list[tuple[str, str]] = []
    starts: list[str] = []
    cursor = None
    while True:
        query = RequestQuery(now - timedelta(days=2), now, {"tenant": "acme"}, cursor, 70)
        page = list_requests(deps.engine, deps.prices, query)
        seen += [(r["trace_id"], r["request_id"]) for r in page.requests]
        starts += [r["start"] for r in page.requests]
        if page.next_cursor is None:
            break
        cursor = Cursor.parse(page.next_cursor)

    expected = deps.engine.rows(
        "SELECT toInt64(count()) AS n FROM facts FINAL WHERE tenant = 'acme' "
        "AND start >= {from:DateTime64(6, 'UTC')} AND start < {to:DateTime64(6, 'UTC')}",
        {"from": now - timedelta(days=2), "to": now},
    )[0]["n"]
    assert len(seen) == len(set(seen)) == expected > 140
    assert starts == sorted(starts, reverse=True)


def test_every_verdict_has_a_burn_down_that_ends_at_its_budget(deps: Any) -> None:
    verdicts = [v for v in deps.verdicts() if v.budget_remaining is not None]

    spent = read_burndown(Reader(deps, Memo(deps.clock)), verdicts)

    assert len(spent) == len(verdicts) > 10
    for verdict in verdicts:
        points = spent[verdict.slo, tuple(verdict.group.values())]
        assert points[0].remaining == 1.0
        # The last whole step and the verdict may differ by the requests at the window's edges.
        assert points[-2].remaining == pytest.approx(points[-1].remaining, abs=0.05)


def test_an_allowance_of_dollars_has_a_burn_down_too(deps: Any) -> None:
    now = deps.clock.now()
    whole = Spend(now - timedelta(days=30, minutes=30), 1.5, 2.0, 200, 0.0075)
    cost = CostVerdict(0.01, "good_request", "apart", now, whole, {})
    some = next(v for v in deps.verdicts() if v.group)
    verdict = replace(some, slo="chat-cost", objective=None, budget_remaining=0.25, cost=cost)
    group = tuple(some.group.values())
    spent_by = {group: [(now - timedelta(days=day), 1.0 / day) for day in (2, 1)]}
    asked = replace(deps, spending=lambda name, _at: spent_by if name == "chat-cost" else {})

    points = read_burndown(Reader(asked, Memo(deps.clock)), [verdict])["chat-cost", group]

    assert [point.remaining for point in points] == [1.0, 0.75, 0.5, 0.25]
    assert points[0].at == now - timedelta(days=30)
    chart = budget_figure.burndown(points, verdict)
    assert chart.series[0].y == (100.0, 75.0, 50.0, 25.0)


def test_a_burn_down_leaves_out_what_is_excluded(deps: Any) -> None:
    now = deps.clock.now().replace(second=0, microsecond=0)
    everything = Exclusion(
        id="1", starts_at=now - timedelta(days=20), ends_at=now + timedelta(minutes=1),
        reason="move", created_by="ada", created_at=now, approved_by="ben", approved_at=now,
    )  # fmt: skip
    verdicts = [v for v in deps.verdicts() if v.budget_remaining is not None]
    without = replace(deps, exclusions=lambda: [everything])

    spent = read_burndown(Reader(deps, Memo(deps.clock)), verdicts)
    left = read_burndown(Reader(without, Memo(deps.clock)), verdicts)

    worst = min(spent, key=lambda key: spent[key][-2].remaining)
    assert left[worst][-2].remaining > spent[worst][-2].remaining


def test_an_outcome_that_does_not_exist_is_refused_with_those_that_do(client: TestClient) -> None:
    answer = client.get("/api/v1/requests", params={"outcome": "xyz"})

    assert answer.status_code == 400
    assert answer.json()["detail"] == "outcome 'xyz' is not one of good, bad, excluded"


def test_the_api_gives_requests_with_every_field_and_null_where_unknown(
    client: TestClient,
) -> None:
    answer = client.get("/api/v1/requests", params={"tenant": "acme", "limit": 200}).json()

    row = next(r for r in answer["requests"] if r["outcome"] == "good" and r["replica"])
    assert row.keys() >= REQUEST_FIELDS
    assert row["cost_usd"] > 0
    assert row["cost_basis"] == "gpu"
    shed = next(r for r in answer["requests"] if r["outcome_reason"] == "shed")
    assert (shed["replica"], shed["ttft_ms"], shed["prompt_tokens"], shed["cost_usd"]) == (
        (None,) * 4
    )


def test_the_api_pages_by_cursor(client: TestClient) -> None:
    first = client.get("/api/v1/requests", params={"limit": 3}).json()
    second = client.get(
        "/api/v1/requests", params={"limit": 3, "cursor": first["next_cursor"]}
    ).json()

    ids = [r["request_id"] for page in (first, second) for r in page["requests"]]
    assert len(set(ids)) == 6


_BEYOND = base64.urlsafe_b64encode(f"{2**64} {'0' * 32} {'0' * 16}".encode()).decode()


@pytest.mark.parametrize(
    "params", [{"from": "then"}, {"cursor": "x"}, {"cursor": _BEYOND}, {"limit": "0"}]
)
def test_a_bad_question_is_refused_with_a_reason(
    client: TestClient, params: dict[str, str]
) -> None:
    answer = client.get("/api/v1/requests", params=params)

    assert answer.status_code in {400, 422}
    assert answer.json()["detail"]


def test_the_api_gives_a_trace_as_a_tree_with_totals(client: TestClient) -> None:
    trace = client.get(f"/api/v1/traces/{TRACE}").json()

    totals = trace["totals"]
    assert (totals["requests"], totals["prompt_tokens"]) == (3, 1240 + 3980 + 5120)
    assert totals["conflicts"][0]["field"] == "prompt_tokens"
    root = trace["spans"][0]
    assert (root["parent"], root["name"]) == (None, "invoke_agent researcher")
    assert root["cost_usd"] == pytest.approx(totals["cost_usd"])
    assert {s["layer"] for s in trace["spans"]} >= {"agent", "llm", "gateway", "engine", "tool"}
    assert all(s["duration_ms"] > 0 for s in trace["spans"])


def test_a_trace_that_is_not_here_is_a_404_that_says_why(client: TestClient) -> None:
    missing = client.get(f"/api/v1/traces/{'0' * 31}1")
    garbled = client.get("/api/v1/traces/zz")

    assert missing.status_code == 404
    assert "retention" in missing.json()["detail"]
    assert garbled.status_code == 400


def test_the_bill_on_the_page_adds_up(deps: Any) -> None:
    from cost.read import read_ledger
    from cost.report import report

    now = deps.clock.now()
    window = Window(now - timedelta(days=7), now)
    bill = report(read_ledger(deps.engine, deps.prices, window, ("tenant",)), ("tenant",))

    rows = cost.rows(bill, tenant=None)

    total = sum(row["cost_usd"] or 0 for row in rows)
    assert total == pytest.approx(bill.totals.cost_usd, abs=1e-9)
    assert "adds up" in str(cost.reconciliation(bill.totals))


def test_a_chosen_tenant_leaves_other_tenants_off_the_page(deps: Any) -> None:
    mine = overview.of_tenant(deps.verdicts(), "acme")

    assert {v.group["tenant"] for v in mine} == {"acme"}


def test_a_link_in_a_notification_finds_its_objective(deps: Any) -> None:
    verdicts = deps.verdicts()

    linked = slo_table.chosen(verdicts, parse_search("?slo=chat-ttft&tenant=globex"))
    by_row = slo_table.chosen(verdicts, parse_search(f"?slo={slo_table.name_of(linked)}"))

    assert linked is by_row
    assert (linked.slo, linked.group["tenant"]) == ("chat-ttft", "globex")


def test_without_objectives_the_page_says_how_to_get_them() -> None:
    said = slo_table.table([], {}, parse_search(""), "")

    assert "--slo" in str(said)
