"""The REST contract: every field and its type, on real data, as other programs read it."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from base.durations import format_instant, parse_instant
from tests.e2e.instance import Instance
from tests.e2e.otlp import MS, SECOND, export, gateway_span
from tests.e2e.traffic import BASE, BASE_NS, NOW, traffic

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("e2e-api"), pytest.mark.timeout(300)]

INSTANT = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}Z$")
NUMBER = (int, float)
OR_NULL = type(None)
Fields = Mapping[str, Any]

SLO: Fields = {
    "name": str, "group": dict, "objective": float, "window": str, "good": int, "bad": int,
    "excluded": int, "total": int, "sli": (*NUMBER, OR_NULL),
    "budget_remaining": (*NUMBER, OR_NULL), "burn": dict, "coverage": (*NUMBER, OR_NULL),
    "watermark": (str, OR_NULL), "state": str,
}  # fmt: skip
COST: Fields = {
    "since": str, "spent_usd": (*NUMBER, OR_NULL), "allowed_usd": float, "units": float,
    "usd_per_unit": (*NUMBER, OR_NULL), "at_most_usd": float, "per": str, "idle": str, "at": str,
    "unpriced_requests": int, "unpriced_share": float, "unmeasured_requests": int, "windows": dict,
}  # fmt: skip
REQUEST: Fields = {
    "request_id": str, "trace_id": str, "tenant": (str, OR_NULL), "route": (str, OR_NULL),
    "model": (str, OR_NULL), "replica": (str, OR_NULL), "outcome": str,
    "outcome_reason": (str, OR_NULL), "start": str, "duration_ms": (*NUMBER, OR_NULL),
    "ttft_ms": (*NUMBER, OR_NULL), "tpot_ms": (*NUMBER, OR_NULL), "queue_ms": (*NUMBER, OR_NULL),
    "prompt_tokens": (int, OR_NULL), "cached_tokens": (int, OR_NULL),
    "completion_tokens": (int, OR_NULL), "cost_usd": (*NUMBER, OR_NULL), "attempts": int,
    "sources": list,
}  # fmt: skip
TOTALS: Fields = {
    "prompt_tokens": (int, OR_NULL), "completion_tokens": (int, OR_NULL),
    "cost_usd": (*NUMBER, OR_NULL), "requests": int, "conflicts": list,
}  # fmt: skip
SOURCE: Fields = {
    "source": str, "tenant": (str, OR_NULL), "accepted": int, "refused": dict, "duplicate": int,
    "late": int, "unknown_names": dict,
}  # fmt: skip
SPAN = {"from_": format_instant(BASE - timedelta(days=26)), "to": format_instant(NOW)}


def check(body: Mapping[str, Any], fields: Fields) -> None:
    """Every field is there and of its type; a bool is not a number."""
    assert fields.keys() <= body.keys(), fields.keys() - body.keys()
    for name, kinds in fields.items():
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        assert type(body[name]) in allowed, (name, body[name])


@pytest.fixture(scope="module")
def filled(running: Instance) -> Instance:
    """Hours of mixed traffic, and two requests that say as little, and as much, as they can."""
    rng = random.Random(1)
    sent = traffic(3)
    bare = gateway_span(rng.randbytes(16), rng.randbytes(8), BASE_NS - 7200 * SECOND, 5, tenant="")
    del bare.span.attributes[1:]
    bare.span.attributes[0].value.string_value = "gateway"
    odd = gateway_span(
        rng.randbytes(16), rng.randbytes(8), BASE_NS - 7100 * SECOND, 5, tenant="odd",
        gen_ai__nobody__knows=1, user__id="u1", feature="search",
    )  # fmt: skip
    running.take(export([*sent, bare, odd]), export(sent[:50]))
    return running


def test_slos_have_exactly_these_fields(filled: Instance) -> None:
    answer = filled.ask("slos", now=format_instant(NOW))

    assert answer["now"] == format_instant(NOW)
    assert {body["name"] for body in answer["slos"]} == {
        "availability", "chat-ttft", "chat-tpot", "chat-e2e", "chat-cost", "fleet-cost",
    }  # fmt: skip
    for body in answer["slos"]:
        if body["cost"] is not None:
            check(body, SLO | {"objective": OR_NULL})
            check(body["cost"], COST)
            continue
        check(body, SLO)
        assert 0 < body["objective"] < 1
        assert body["total"] == body["good"] + body["bad"]
        assert {"5m", "1h", "30d"} <= body["burn"].keys()
        assert all(type(v) in {int, float, OR_NULL} for v in body["burn"].values())
        assert body["watermark"] is None or INSTANT.match(body["watermark"])
        assert body["state"] in {
            "OK", "BURNING", "EXHAUSTED", "NO_TRAFFIC", "STALE", "ABSENT",
        }  # fmt: skip
    groups = [body["group"] for body in answer["slos"] if body["name"] == "availability"]
    assert {"tenant": "acme"} in groups


def test_requests_have_exactly_these_fields_and_null_for_what_is_unknown(filled: Instance) -> None:
    facts = filled.requests(**SPAN)
    assert len(facts) > 40
    for fact in facts:
        check(fact, REQUEST)
        assert re.fullmatch(r"[0-9a-f]{32}", fact["trace_id"])
        assert re.fullmatch(r"[0-9a-f]{16}", fact["request_id"])
        assert INSTANT.match(fact["start"])
        assert fact["outcome"] in {"good", "bad", "excluded"}
        assert fact["attempts"] >= 1
        assert fact["sources"]
        assert all(type(each) is str for each in fact["sources"])
        assert "" not in fact.values(), "unknown is null, not an empty text"
    for name in ("ttft_ms", "queue_ms", "prompt_tokens", "cost_usd", "replica"):
        assert any(fact[name] is None for fact in facts), name
        assert any(fact[name] is not None for fact in facts), name
    [bare] = [fact for fact in facts if fact["start"].startswith("2026-11-20T08:00:00")]
    assert bare["tenant"] == "default"
    assert bare["route"] == "POST /v1/chat/completions", "the span's name"
    unknown = ("model", "replica", "ttft_ms", "tpot_ms", "queue_ms", "prompt_tokens",
               "cached_tokens", "completion_tokens", "cost_usd")  # fmt: skip
    assert {name: bare[name] for name in unknown} == dict.fromkeys(unknown)
    retried = [fact for fact in facts if fact["attempts"] == 2 and fact["replica"]]
    assert retried


def test_pages_by_cursor_hold_every_request_once(filled: Instance) -> None:
    whole = filled.requests(**SPAN)
    keys = [(fact["trace_id"], fact["request_id"]) for fact in whole]
    assert len(keys) == len({*keys})
    starts = [fact["start"] for fact in whole]
    assert starts == sorted(starts, reverse=True), "newest first"
    for limit in (1, 7, len(whole)):
        assert filled.requests(limit=limit, **SPAN) == whole

    acme = filled.requests(tenant="acme", limit=3, **SPAN)
    assert acme == [fact for fact in whole if fact["tenant"] == "acme"]
    chat = filled.requests(route="/v1/chat/completions", model="tiny", limit=5, **SPAN)
    assert chat == [
        fact for fact in whole
        if fact["route"] == "/v1/chat/completions" and fact["model"] == "tiny"
    ]  # fmt: skip
    assert 0 < len(acme) < len(whole)
    middle = parse_instant(whole[len(whole) // 2]["start"])
    halves = [
        filled.requests(from_=SPAN["from_"], to=middle.isoformat()),
        filled.requests(from_=middle.isoformat(), to=SPAN["to"]),
    ]
    assert [*halves[1], *halves[0]] == whole, "from is inclusive, to is not"
    by_seconds = filled.requests(
        from_=str((BASE - timedelta(days=26)).timestamp()), to=str(NOW.timestamp())
    )
    assert by_seconds == whole
    assert filled.get("/api/v1/requests", cursor="nonsense").status_code == 400
    assert filled.get("/api/v1/requests", limit=0).status_code == 422


def test_requests_that_began_at_once_are_on_one_page_each(filled: Instance) -> None:
    rng = random.Random(4)
    start = BASE_NS + 3 * 86_400 * SECOND
    sent = [
        gateway_span(rng.randbytes(16), rng.randbytes(8), start + (each // 4) * MS, 5, tenant="tie")
        for each in range(12)
    ]
    filled.take(export(sent))

    whole = filled.requests(tenant="tie", limit=5)

    assert {fact["trace_id"] for fact in whole} == {each.span.trace_id.hex() for each in sent}
    assert len(whole) == 12


def test_a_trace_adds_up(filled: Instance) -> None:
    facts = filled.requests(**SPAN)
    checked = 0
    for trace_id in sorted({fact["trace_id"] for fact in facts})[:25]:
        answer = filled.ask(f"traces/{trace_id}")
        check(answer["totals"], TOTALS)
        own = [fact for fact in facts if fact["trace_id"] == trace_id]
        assert answer["totals"]["requests"] == len(own) == len(answer["requests"])
        for name in ("prompt_tokens", "completion_tokens"):
            assert answer["totals"][name] == total(fact[name] for fact in own)
        assert answer["totals"]["cost_usd"] == approx(total(fact["cost_usd"] for fact in own))
        ids = {span["id"] for span in answer["spans"]}
        for span in answer["spans"]:
            assert span["duration_ms"] >= 0
            assert span["parent"] is None or re.fullmatch(r"[0-9a-f]{16}", span["parent"])
            assert span["attributes"] is not None
        assert {fact["request_id"] for fact in own} <= ids
        checked += 1
    assert checked == 25
    conflicting = [f for f in facts if len({s.partition(":")[0] for s in f["sources"]}) > 2]
    told = [filled.ask(f"traces/{f['trace_id']}")["totals"]["conflicts"] for f in conflicting]
    [first, *_] = [conflicts[0] for conflicts in told if conflicts]
    check(first, {"request_id": str, "field": str, "layer": str, "says": int, "taken": int,
                  "taken_from": str})  # fmt: skip
    assert filled.get(f"/api/v1/traces/{'0' * 32}").status_code == 404
    assert filled.get("/api/v1/traces/xyz").status_code == 400


def test_the_bill_reconciles(filled: Instance) -> None:
    hours = {"from_": format_instant(BASE), "to": format_instant(NOW)}
    facts = filled.requests(**hours)
    by_default = filled.ask("cost", **hours)
    for by in ("tenant,route", "tenant", "model,replica", "route", "feature,user_id"):
        answer = filled.ask("cost", by=by, **hours)
        totals, rows = answer["totals"], answer["rows"]
        assert answer["by"] == by.split(",")
        assert all({*by.split(","), "kind", "cost_usd"} <= row.keys() for row in rows)
        assert totals == by_default["totals"], "the same bill however it is cut"
        assert totals["difference_usd"] == 0
        priced = [row for row in rows if row["cost_usd"] is not None]
        assert sum(row["cost_usd"] for row in priced) == approx(totals["cost_usd"])
        parts = ("used_usd", "idle_usd", "overhead_usd", "token_usd")
        assert sum(totals[part] for part in parts) == approx(totals["cost_usd"])
        used = [row for row in rows if row["kind"] == "used"]
        assert sum(row["requests"] for row in used) == totals["requests"] == len(facts)
    # Two replicas of four H100 for three hours, at the price of that day.
    assert by_default["totals"]["gpu_hours"] == approx(24)
    assert by_default["totals"]["gpu_bill_usd"] == approx(24 * 2.49)
    assert by_default["totals"]["overhead_usd"] == approx(24 * 0.30)
    spent = sum(fact["cost_usd"] or 0 for fact in facts)
    assert spent == approx(by_default["totals"]["used_usd"] + by_default["totals"]["token_usd"])
    assert filled.get("/api/v1/cost", by="colour").status_code == 400


def test_budgets_of_dollars_are_the_bill(filled: Instance) -> None:
    bodies = filled.ask("slos", now=format_instant(NOW))["slos"]
    (fleet,) = [body["cost"] for body in bodies if body["name"] == "fleet-cost"]
    chat = {b["group"]["tenant"]: b["cost"] for b in bodies if b["name"] == "chat-cost"}
    hours = {"from_": fleet["since"], "to": fleet["at"]}

    totals = filled.ask("cost", **hours)["totals"]
    rows = filled.ask("cost", by="tenant,route", **hours)["rows"]

    used = {row["tenant"]: row for row in rows
            if row["kind"] == "used" and row["route"] == "/v1/chat/completions"}  # fmt: skip
    assert fleet["spent_usd"] == approx(totals["cost_usd"])
    assert len(chat) > 1
    assert {t: c["spent_usd"] for t, c in chat.items()} == approx(
        {tenant: row["cost_usd"] for tenant, row in used.items()}
    )
    assert {t: c["units"] for t, c in chat.items()} == {t: r["good"] for t, r in used.items()}


def test_ingest_counts_every_span(filled: Instance) -> None:
    answer = filled.ask("ingest")
    for source in answer["sources"]:
        check(source, SOURCE)
    [loopback] = [each for each in answer["sources"] if each["accepted"]]
    stored = loopback["accepted"] - loopback["duplicate"]
    assert loopback["accepted"] == loopback["acknowledged"]
    assert loopback["duplicate"] >= 50
    assert 0 < stored < loopback["accepted"]
    assert loopback["late"] > 0
    assert loopback["unknown_names"].get("gen_ai.nobody.knows") == 1
    assert answer["log"] == {
        "lag_bytes": 0, "lag_s": None, "batches": answer["log"]["batches"], "failures": 0,
        "error": None,
    }  # fmt: skip
    assert answer["receiver"]["up"] is True
    marks = {(each["layer"], each["instance"]) for each in answer["watermarks"]}
    assert {("gateway", "gw-0"), ("engine", "r0"), ("engine", "r1")} <= marks


def test_alerts_and_actions_say_what_there_is(filled: Instance) -> None:
    alerts = filled.ask("alerts", now=format_instant(NOW))
    actions = filled.ask("actions")

    assert alerts["now"] == format_instant(NOW)
    assert type(alerts["alerts"]) is list
    check(actions, {"mode": str, "kill_switch": dict, "actions": list, "scopes": list})
    assert actions["kill_switch"] == {"on": False, "by": None, "reason": None, "at": None}


def test_openapi_describes_every_fixed_endpoint(filled: Instance) -> None:
    document = filled.get("/api/v1/openapi.json").json()
    wanted = {
        "/api/v1/slos": {"now"},
        "/api/v1/requests": {"from", "to", "tenant", "route", "model", "limit", "cursor"},
        "/api/v1/traces/{trace_id}": {"trace_id"},
        "/api/v1/cost": {"by", "from", "to"},
        "/api/v1/alerts": set(),
        "/api/v1/actions": set(),
        "/api/v1/ingest": set(),
    }
    for path, parameters in wanted.items():
        described = document["paths"][path]["get"]
        assert parameters <= {each["name"] for each in described.get("parameters", [])}, path
        schema = described["responses"]["200"]["content"]["application/json"]["schema"]
        assert schema, path
    for name, fields in (("SloBody", SLO), ("RequestFact", REQUEST), ("TotalsAnswer", TOTALS)):
        assert fields.keys() <= document["components"]["schemas"][name]["properties"].keys()


def test_every_get_endpoint_survives_odd_questions(filled: Instance) -> None:
    schema = schemathesis.openapi.from_url(f"{filled.endpoints['http']}/api/v1/openapi.json")
    asked = [
        ask_oddly(operation)
        for result in schema.get_all_operations()
        if (operation := result.ok()).method.upper() == "GET"
    ]

    assert {"/api/v1/slos", "/api/v1/requests", "/api/v1/cost"} <= {*asked}


def ask_oddly(operation: Any) -> str:
    """Ask a few generated questions; whatever they are, the answer is not the server's fault."""

    @settings(
        max_examples=8, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        if isinstance(case.query, dict):
            case.query.pop("wait", None)  # a long poll is meant to take its time
        answer = case.call(timeout=20)
        assert answer.status_code < 500, (operation.path, case.query, answer.text)

    ask()
    return str(operation.path)


def total(values: Any) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def approx(value: Any) -> Any:
    """Tenths of a cent of a cent: amounts leave as doubles."""
    return value if value is None else pytest.approx(value, abs=1e-6)


def test_errors_say_what_is_wrong(filled: Instance) -> None:
    wrong: Sequence[tuple[str, dict[str, str]]] = (
        ("/api/v1/slos", {"now": "soon"}),
        ("/api/v1/requests", {"from_": "soon"}),
        ("/api/v1/cost", {"to": "soon"}),
        ("/api/v1/alerts", {"now": "soon"}),
        ("/api/v1/ingest", {"now": "soon"}),
        ("/api/v1/actions", {"since": "soon"}),
    )
    for path, params in wrong:
        answer = filled.get(path, **params)
        assert answer.status_code == 400, path
        assert "soon" in answer.text, path
