"""The evidence queries on the real embedded engine, and the loop on top of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rig import make_settings
from snapshots import verdict
from sqlalchemy import Engine as Database
from world import START, World

import store.open
import store.schema
from actuators.diagnose import diagnose
from actuators.drivers.build import build_drivers
from actuators.evidence import Absent, Known, Stale, known
from actuators.loop import ControlLoop
from actuators.observe import Observer
from actuators.trust import judge_trust
from base.clock import ManualClock
from slo.verdict import CostVerdict, Spend
from store.engine import Engine
from store.sources import watermarks

SETTINGS = make_settings(window="60s", verify_within="90s")
NOW = START


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = store.open.open_engine(f"chdb://{tmp_path}/store")
    store.schema.create(opened)
    yield opened
    opened.close()


def fact(number: int, ago_s: float, tenant: str, **changes: Any) -> dict[str, Any]:
    start = NOW - timedelta(seconds=ago_s)
    made = {
        "start": start,
        "end": start + timedelta(seconds=1),
        "trace_id": number.to_bytes(16),
        "request_id": str(number),
        "tenant": tenant,
        "model": "m",
        "replica": f"r{number % 2}",
        "priority": "interactive",
        "outcome": "good",
        "outcome_reason": "ok",
        "duration_ms": 1000.0,
        "ttft_ms": 200.0,
        "tpot_ms": 20.0,
        "queue_ms": 900.0,
        "prompt_tokens": 1000,
        "cached_tokens": 400,
        "completion_tokens": 100,
        "sources": ["gateway:tokenweir-gateway/gw-0"],
        "version": 1,
        "deleted": 0,
    }
    return {**made, **changes}


def insert(engine: Engine, facts: list[dict[str, Any]]) -> None:
    columns = {name: [f[name] for f in facts] for name in facts[0]}
    engine.insert_arrow("facts", pa.table(columns))


def heard(engine: Engine, *, first: datetime, last: datetime) -> None:
    rows = {
        "minute": [first.replace(second=0), last.replace(second=0)],
        "layer": ["gateway"] * 2,
        "service": ["tokenweir-gateway"] * 2,
        "instance": ["gw-0"] * 2,
        "first": [first, last],
        "last": [first, last],
    }
    engine.insert_arrow("source_minutes", pa.table(rows))


def traffic() -> list[dict[str, Any]]:
    """Ten quiet minutes of two tenants, then a minute in which one sends ten times as much."""
    facts = []
    for second in range(2, 400, 2):
        facts += [fact(len(facts), second, "beta"), fact(len(facts) + 1, second, "acme")]
    for i in range(300):
        facts.append(fact(len(facts), 2 + i / 6, "acme"))
    for i in range(60):
        changes = {
            "outcome": "bad",
            "outcome_reason": "shed",
            "prompt_tokens": None,
            "cached_tokens": None,
            "completion_tokens": None,
            "queue_ms": None,
            "ttft_ms": None,
            "duration_ms": 1.0,
            "replica": "",
        }
        facts.append(fact(len(facts), 2 + i / 2, "gamma", **changes))
    return facts


def observe(engine: Engine, now: datetime = NOW) -> Any:
    observer = Observer(engine, SETTINGS, lambda at: watermarks(engine, at), {})
    return observer.observe(SETTINGS.gateways[0], [verdict()], now)


def test_an_empty_store_knows_nothing_and_says_so(engine: Engine) -> None:
    seen = observe(engine)

    assert seen.source == Absent("no source ever reported")
    for name in ("queue_p95_ms", "ttft_p95_ms", "bad_ratio"):
        assert isinstance(seen.metric(name), Absent)
    assert seen.tenants == ()


def test_loads_latencies_and_baselines_come_from_the_facts(engine: Engine) -> None:
    heard(engine, first=NOW - timedelta(hours=1), last=NOW)
    insert(engine, traffic())
    seen = observe(engine)
    acme, beta, gamma = (seen.tenant(t) for t in ("acme", "beta", "gamma"))

    assert isinstance(seen.source, Known)
    # 600 uncached prompt tokens and 100 completion tokens that weigh 3 each.
    assert beta.offered_work_per_s == pytest.approx(0.5 * 900, rel=0.05)
    assert beta.baseline_work_per_s == pytest.approx(0.5 * 900, rel=0.05)
    assert acme.offered_work_per_s > 8 * acme.baseline_work_per_s
    assert gamma.refused_per_s == pytest.approx(1.0, rel=0.05)
    assert gamma.admitted_work_per_s == 0
    assert gamma.offered_work_per_s == pytest.approx(900.0, rel=0.05), "sized as the others are"
    assert known(seen.queue_p95_ms) == 900.0
    assert known(seen.bad_ratio) == 0.0, "our own sheds are not counted against anybody"
    assert {r.replica for r in seen.replicas} == {"r0", "r1"}
    assert seen.outcomes["bad/shed"] > 0
    assert set(seen.priorities) == {"interactive"}


def test_a_silent_source_makes_every_number_absent(engine: Engine) -> None:
    heard(engine, first=NOW - timedelta(hours=1), last=NOW)
    insert(engine, traffic())
    seen = observe(engine, NOW + timedelta(minutes=2))

    assert isinstance(seen.source, Stale)
    assert isinstance(seen.arrivals_per_s, Absent)
    assert isinstance(seen.queue_p95_ms, Absent)


def test_capacity_is_measured_where_requests_waited(engine: Engine) -> None:
    heard(engine, first=NOW - timedelta(hours=1), last=NOW)
    insert(engine, traffic())
    world = World(ManualClock(NOW), {})
    observer = Observer(
        engine,
        SETTINGS,
        lambda at: watermarks(engine, at),
        {"chat": lambda _now: _as_state(world)},
    )
    fleet = observer.observe(SETTINGS.gateways[0], [verdict()], NOW).fleet("chat")

    assert fleet is not None
    assert known(fleet.capacity_per_replica) == pytest.approx(450, rel=0.1)
    assert known(fleet.peak_work_per_s) == pytest.approx(6.5 * 900, rel=0.25)


def test_the_loop_acts_on_what_the_store_holds(engine: Engine, db: Database) -> None:
    heard(engine, first=NOW - timedelta(hours=1), last=NOW)
    insert(engine, traffic())
    clock = ManualClock(NOW)
    drivers = build_drivers(SETTINGS, engine, db, clock, World(clock, {}).http())
    loop = ControlLoop(engine, db, drivers, SETTINGS, clock)
    (report,) = loop.tick([replace(verdict(), at=NOW)], NOW)

    assert report.causes[0].key == "tenant_flood:acme"
    assert [p.key for p in report.done] == [
        "fleet/chat||scale",
        "gateway/demo|tenant=acme|shed",
    ]
    assert drivers.policies.current("demo", NOW).document["rules"]


def refused(number: int, ago_s: float, reason: str) -> dict[str, Any]:
    """A request of acme that waited five seconds and was never served: nobody counted tokens."""
    start = NOW - timedelta(seconds=ago_s)
    changes = {
        "end": start + timedelta(seconds=5),
        "outcome": "bad",
        "outcome_reason": reason,
        "prompt_tokens": None,
        "cached_tokens": None,
        "completion_tokens": None,
        "queue_ms": None,
        "ttft_ms": None,
        "duration_ms": 5000.0,
        "replica": "",
    }
    return fact(number, ago_s, "acme", **changes)


def overrun() -> list[dict[str, Any]]:
    """Ten quiet minutes, then a flood of which most finds no place and the rest waits 45 s.

    What waits is not stored yet: of the last 45 s only refusals are there.
    """
    facts = []
    for second in range(62, 660, 2):
        facts += [fact(len(facts), second, "beta"), fact(len(facts) + 1, second, "acme")]
    for i in range(20):
        served = {"queue_ms": 45_000.0, "ttft_ms": 45_000.0, "duration_ms": 47_000.0}
        started = NOW - timedelta(seconds=60 - i / 2)
        facts.append(
            fact(len(facts), 60 - i / 2, "acme", end=started + timedelta(seconds=47), **served)
        )
    facts.append(fact(len(facts), 50, "beta", end=NOW - timedelta(seconds=3), queue_ms=45_000.0))
    for i in range(100):
        reason = ("capacity", "timeout", "client_gone")[i % 3]
        facts.append(refused(len(facts), 55 - i / 2, reason))
    return facts


def test_refused_and_queued_requests_are_offered_work_and_show_the_flood(engine: Engine) -> None:
    heard(engine, first=NOW - timedelta(hours=1), last=NOW)
    insert(engine, overrun())
    settings = make_settings(window="20s")
    observer = Observer(engine, settings, lambda at: watermarks(engine, at), {})
    seen = observer.observe(settings.gateways[0], [verdict()], NOW)
    acme = seen.tenant("acme")

    # In the last 20 s nothing that was served started, but much of what had queued ended.
    assert known(seen.queue_p95_ms) == 45_000.0
    # 30 refusals with a reason that is not ours, each as large as the tenant's served ones.
    assert acme.refused_per_s == pytest.approx(2.0, rel=0.1)
    assert acme.offered_work_per_s > acme.admitted_work_per_s + 1.9 * 900
    cause = diagnose(seen, judge_trust(seen), settings)[0]
    assert cause.key == "tenant_flood:acme"


def test_a_client_that_left_a_running_answer_was_served(engine: Engine) -> None:
    heard(engine, first=NOW - timedelta(hours=1), last=NOW)
    left = [fact(i, 2 + i, "acme", outcome_reason="client_gone") for i in range(20)]
    insert(engine, left)

    assert observe(engine).tenant("acme").refused_per_s == 0


def _as_state(world: World) -> Any:
    from actuators.evidence import FleetState

    return FleetState(world.desired, world.ready, 0, world.min, world.max)


def test_money_steers_only_who_names_it(engine: Engine) -> None:
    cost = CostVerdict(1, "request", "apart", NOW, Spend(NOW, 2, 1, 1, 2), {})
    dear = replace(verdict(), slo="chat-cost", objective=None, cost=cost)
    named = SETTINGS.gateways[0].model_copy(update={"slos": ("chat-cost",)})
    observer = Observer(engine, SETTINGS, lambda at: watermarks(engine, at), {})

    by_default = observer.observe(SETTINGS.gateways[0], [verdict(), dear], NOW)
    asked_for = observer.observe(named, [verdict(), dear], NOW)

    assert [each.slo for each in by_default.verdicts] == ["chat"]
    assert [each.slo for each in asked_for.verdicts] == ["chat-cost"]
