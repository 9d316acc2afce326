"""Decisions from snapshots: sizes, bounds, order, and nothing without evidence."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import make_settings
from snapshots import evidence, fleet, number, replica, snapshot, tenant, verdict
from world import START

from actuators.decide import decide
from actuators.diagnose import diagnose
from actuators.evidence import Absent, Evidence, Known, Stale
from actuators.guard import Context, guard
from actuators.lease import Kind
from actuators.proposal import Proposal, Step
from actuators.trust import judge_trust

SETTINGS = make_settings()
FLOOD = (tenant("acme", 30_000.0), tenant("beta", 1000.0), tenant("gamma", 1000.0))


def flood(**changes: object) -> Evidence:
    return evidence(**{"tenants": FLOOD, "queue_p95_ms": number(4000.0), **changes})


def decided(seen: Evidence, **changes: object) -> dict[Kind, Proposal]:
    return {p.kind: p for p in decide(snapshot(seen, SETTINGS, **changes), SETTINGS)}


def test_a_flood_is_answered_with_capacity_and_a_shed_of_the_flooding_tenant() -> None:
    found = decide(snapshot(flood(), SETTINGS), SETTINGS)

    assert [(p.kind, p.target, p.subject) for p in found] == [
        (Kind.SCALE, "fleet/chat", ""),
        (Kind.SHED, "gateway/demo", "tenant=acme"),
    ]
    assert found[0].change == {"desired": 4}  # 32,000 / (10,000 x 0.85)
    # It keeps what the others leave of 85 % of two replicas, 17,000 - 2,000 of 30,000, less the
    # 4 s x 20,000 that wait already, worked off within 45 s.
    assert found[1].change["fraction"] == 0.56


def test_without_a_measured_capacity_the_excess_over_the_usual_work_is_shed() -> None:
    found = decided(flood(fleets=(fleet(2, capacity=None),)))

    assert found[Kind.SHED].change["fraction"] == 0.9  # 1 - 1.5 x 1,000 / 30,000, at the ceiling
    assert found[Kind.SCALE].change == {"desired": 3}  # one more, for want of arithmetic


def test_a_flood_nobody_waits_for_is_shed_but_not_scaled_for() -> None:
    seen = flood(queue_p95_ms=Absent("no engine telemetry"))

    assert set(decided(seen)) == {Kind.SHED}


def test_retry_after_is_the_queue_at_what_is_still_let_in() -> None:
    assert decided(flood())[Kind.SHED].change["retry_after_s"] == 10  # 4 s / 0.44


def test_a_cold_lever_is_passed_over_for_the_next_rung() -> None:
    cold = frozenset({"gateway/demo|tenant=acme|shed|tenant_flood:acme"})

    assert set(decided(flood(), cold=cold)) == {Kind.SCALE, Kind.CAP}


def test_batch_is_not_paused_while_nobody_waits() -> None:
    tenants = tuple(tenant(n, 9000.0) for n in ("acme", "beta", "gamma"))
    seen = evidence(tenants=tenants, queue_p95_ms=number(5.0), priorities={"batch": 9000.0})

    assert set(decided(seen)) == {Kind.SCALE}


def test_demand_scales_and_pauses_batch_and_sheds_no_tenant() -> None:
    tenants = tuple(tenant(n, 9000.0) for n in ("acme", "beta", "gamma"))
    seen = evidence(tenants=tenants, queue_p95_ms=number(4000.0), priorities={"batch": 9000.0})
    found = decided(seen)

    assert set(found) == {Kind.SCALE, Kind.SHED}
    assert found[Kind.SHED].subject == "priority=batch"


def test_upstream_errors_move_nothing() -> None:
    seen = evidence(outcomes={"good/ok": 10, "bad/upstream_error": 90})

    assert decided(seen) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"source": Stale(START, START, timedelta(minutes=5))},
        {"source": Absent("nobody")},
        {"verdicts": ()},
    ],
)
def test_untrusted_evidence_decides_nothing(changes: dict[str, object]) -> None:
    assert decided(flood(**changes), calm_since=START - timedelta(hours=1)) == {}


def test_an_unknown_fleet_is_not_scaled() -> None:
    unknown = replace(fleet(), state=Absent("no answer"))

    assert set(decided(flood(fleets=(unknown,)))) == {Kind.SHED}


def test_a_lower_load_gives_one_replica_back_after_a_long_calm() -> None:
    settings = make_settings(scale_in=True)
    calm = evidence(fleets=(fleet(4),), verdicts=(verdict(0.0),))
    soon = snapshot(calm, settings, calm_since=START - timedelta(seconds=10))
    later = snapshot(calm, settings, calm_since=START - timedelta(minutes=10))

    assert decide(soon, settings) == ()
    (step,) = decide(later, settings)
    assert (step.step, step.change, step.revert_to) == (Step.OPEN, {"desired": 3}, {"desired": 4})
    assert step.expect is not None
    assert step.expect.direction == "hold"


@pytest.mark.parametrize(
    "changes",
    [
        {"fleets": (fleet(4, peak=33_000.0),)},  # a burst of late needed all four
        {"fleets": (fleet(4, silent=("r3",)),)},  # a replica stopped sending heartbeats
        {"fleets": (fleet(4, ready=3),)},  # one is still starting
        {"fleets": (fleet(1),)},  # already at its floor
        {"fleets": (fleet(4, capacity=None),), "queue_p95_ms": Absent("no queue")},
        {"verdicts": (verdict(1.5),)},  # a slow window still burns
    ],
)
def test_capacity_is_not_given_back_when(changes: dict[str, object]) -> None:
    settings = make_settings(scale_in=True)
    calm = evidence(**{"verdicts": (verdict(0.0),), **changes})

    assert decide(snapshot(calm, settings, calm_since=START - timedelta(hours=1)), settings) == ()


numbers = st.none() | st.floats(0, 1e7)


@given(
    work=st.lists(st.tuples(st.floats(0, 1e7), numbers), min_size=1, max_size=6),
    queue=numbers,
    capacity=st.none() | st.floats(1, 1e6),
    desired=st.integers(1, 6),
    burn=st.none() | st.floats(0, 100),
)
def test_no_decision_crosses_a_bound(
    work: list[tuple[float, float | None]],
    queue: float | None,
    capacity: float | None,
    desired: int,
    burn: float | None,
) -> None:
    tenants = tuple(tenant(f"t{i}", now, usual) for i, (now, usual) in enumerate(work))
    seen = evidence(
        tenants=tenants,
        queue_p95_ms=number(queue),
        fleets=(fleet(desired, capacity=capacity),),
        verdicts=(verdict(burn),),
    )
    state = snapshot(seen, SETTINGS, calm_since=START - timedelta(hours=1))
    proposals = decide(state, SETTINGS)
    context = Context(seen, (), {}, START)
    allowed, _ = guard(proposals, context, SETTINGS)

    assert proposals == decide(state, SETTINGS)
    for proposal in allowed:
        if proposal.kind is Kind.SCALE:
            assert 1 <= proposal.change["desired"] <= 6
        if proposal.kind is Kind.SHED:
            assert 0 < proposal.change["fraction"] <= 0.9
            assert proposal.subject.startswith("tenant=")
            flooding = next(c for c in state.causes if c.key == proposal.cause)
            assert proposal.subject == f"tenant={flooding.subject}"


def test_a_decision_for_200_replicas_and_500_tenants_takes_under_10_ms() -> None:
    tenants = (tenant("t0", 200_000.0), *(tenant(f"t{i}", 1000.0) for i in range(1, 500)))
    seen = evidence(
        tenants=tenants,
        replicas=tuple(replica(f"r{i}") for i in range(200)),
        fleets=(fleet(6),),
        queue_p95_ms=number(3000.0),
    )
    context = Context(seen, (), {}, START)

    def once() -> float:
        start = time.perf_counter()
        trust = judge_trust(seen)
        state = replace(snapshot_of, trust=trust, causes=diagnose(seen, trust, SETTINGS))
        guard(decide(state, SETTINGS), context, SETTINGS)
        return time.perf_counter() - start

    snapshot_of = snapshot(seen, SETTINGS)
    times = sorted(once() for _ in range(200))

    assert isinstance(seen.source, Known)
    assert times[int(len(times) * 0.5)] < 0.010  # the median: this machine's load is not ours
