"""Each pattern is told apart from the others, and a telemetry fault wins over all."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from rig import make_settings
from snapshots import evidence, fleet, number, replica, tenant, verdict
from world import START

from actuators.diagnose import Cause, CauseKind, diagnose
from actuators.evidence import Evidence, Stale
from actuators.trust import judge_trust
from slo.verdict import State

SETTINGS = make_settings()


def causes_of(seen: Evidence, anchors: dict[str, float] | None = None) -> tuple[Cause, ...]:
    return diagnose(seen, judge_trust(seen), SETTINGS, anchors)


def kinds(seen: Evidence) -> list[CauseKind]:
    return [c.kind for c in causes_of(seen)]


def test_one_tenant_far_above_its_usual_work_is_a_flood() -> None:
    tenants = (tenant("acme", 9000.0), tenant("beta", 1000.0), tenant("gamma", 1000.0))
    cause = causes_of(evidence(tenants=tenants, queue_p95_ms=number(4000.0)))[0]

    assert (cause.kind, cause.subject) == (CauseKind.FLOOD, "acme")
    assert cause.because == (
        "tenant acme offers 9,000 tokens/s of work, 9.0 times its usual 1,000",
        "that is 82% of all work and 100% of what is new",
    )


def test_everybody_growing_alike_is_demand_and_no_flood() -> None:
    tenants = tuple(tenant(n, 9000.0) for n in ("acme", "beta", "gamma"))

    assert kinds(evidence(tenants=tenants, queue_p95_ms=number(4000.0))) == [CauseKind.DEMAND]


def test_a_tenant_that_was_always_large_is_no_flood() -> None:
    tenants = (tenant("acme", 9000.0, usual=8000.0), tenant("beta", 1000.0))

    assert CauseKind.FLOOD not in kinds(evidence(tenants=tenants, queue_p95_ms=number(4000.0)))


def test_a_flood_that_lasts_is_measured_against_the_lease_that_answered_it() -> None:
    tenants = (tenant("acme", 9000.0, usual=8000.0), tenant("beta", 1000.0))
    seen = evidence(tenants=tenants, queue_p95_ms=number(4000.0))

    assert causes_of(seen, {"acme": 1000.0})[0].kind is CauseKind.FLOOD


def test_without_a_baseline_nobody_is_accused() -> None:
    tenants = (tenant("acme", 9000.0, usual=None), tenant("beta", 1000.0, usual=None))

    assert CauseKind.FLOOD not in kinds(evidence(tenants=tenants, queue_p95_ms=number(4000.0)))


def test_the_only_tenant_can_not_flood_itself() -> None:
    seen = evidence(tenants=(tenant("acme", 9000.0),), queue_p95_ms=number(4000.0))

    assert CauseKind.FLOOD not in kinds(seen)


def test_a_tenant_that_grew_is_not_accused_while_there_is_room_for_all() -> None:
    """A batch tenant whose shed requests come back again and again once looked like a flood."""
    tenants = (tenant("batch", 2000.0, usual=100.0), tenant("beta", 300.0))
    roomy = evidence(tenants=tenants, queue_p95_ms=number(None), fleets=(fleet(4),))
    tight = evidence(tenants=tenants, queue_p95_ms=number(None), fleets=(fleet(2, capacity=900.0),))

    assert CauseKind.FLOOD not in kinds(roomy)
    assert kinds(tight)[0] is CauseKind.FLOOD


def test_one_slow_replica_among_three_is_named() -> None:
    replicas = (replica("r0"), replica("r1"), replica("r2", tpot_ms=200.0))
    cause = causes_of(evidence(replicas=replicas))[0]

    assert (cause.kind, cause.subject) == (CauseKind.SLOW_REPLICA, "r2")


def test_of_two_replicas_nobody_knows_which_is_the_odd_one() -> None:
    replicas = (replica("r0"), replica("r1", tpot_ms=200.0))

    assert kinds(evidence(replicas=replicas)) == [CauseKind.UNKNOWN]


def test_a_replica_with_few_requests_is_not_judged() -> None:
    replicas = (replica("r0"), replica("r1"), replica("r2"), replica("r3", 900.0, requests=2))

    assert kinds(evidence(replicas=replicas)) == [CauseKind.UNKNOWN]


def test_upstream_errors_are_no_reason_to_scale() -> None:
    outcomes = {"good/ok": 60, "bad/upstream_error": 40, "excluded/quota": 500}
    cause = causes_of(evidence(outcomes=outcomes))[0]

    assert cause.kind is CauseKind.UPSTREAM
    assert cause.numbers == {"error_share": 0.4}


def test_work_beyond_capacity_is_seen_before_anybody_waits() -> None:
    seen = evidence(fleets=(fleet(2, capacity=1000.0),))

    assert causes_of(seen)[0].because == ("fleet chat has 2 replicas, the work needs 4",)


def test_a_telemetry_fault_wins_over_every_other_cause() -> None:
    tenants = (tenant("acme", 9000.0), tenant("beta", 1000.0))
    stale = Stale(START, START, timedelta(minutes=5))
    found = causes_of(evidence(tenants=tenants, queue_p95_ms=number(9e3), source=stale))

    assert [c.kind for c in found] == [CauseKind.TELEMETRY]
    assert "silent since" in found[0].because[0]


def test_a_stale_slo_is_a_telemetry_fault() -> None:
    found = causes_of(evidence(verdicts=(verdict(state=State.STALE),)))

    assert found[0].because == ("slo chat: every verdict is stale",)


loads = st.floats(0, 1e6, allow_nan=False)


@given(st.lists(st.tuples(loads, st.none() | loads), max_size=8), st.none() | loads)
def test_there_is_always_a_cause_and_causes_are_ranked(
    work: list[tuple[float, float | None]], queue: float | None
) -> None:
    tenants = tuple(tenant(f"t{i}", now, usual) for i, (now, usual) in enumerate(work))
    found = causes_of(evidence(tenants=tenants, queue_p95_ms=number(queue)))

    assert found
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    assert found == causes_of(evidence(tenants=tenants, queue_p95_ms=number(queue)))
