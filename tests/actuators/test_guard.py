"""Bounds that hold whatever is proposed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from math import nan
from typing import Any

import pytest
from rig import make_settings
from snapshots import evidence, fleet
from world import START

from actuators.guard import Context, guard
from actuators.lease import Expect, Kind, Lease, LeaseState, OnExpiry
from actuators.proposal import Proposal, Step

SETTINGS = make_settings()
EXPECT = Expect("queue_p95_ms", "down", 0.2, timedelta(seconds=45), 4000.0, 500.0)


def shed(fraction: float = 0.5, subject: str = "tenant=acme", **changes: Any) -> Proposal:
    made = Proposal(
        Step.OPEN,
        "gateway/demo",
        subject,
        Kind.SHED,
        {"fraction": fraction},
        "why",
        "flood",
        EXPECT,
    )
    return replace(made, **changes)


def scale(desired: int, **changes: Any) -> Proposal:
    made = Proposal(
        Step.OPEN, "fleet/chat", "", Kind.SCALE, {"desired": desired}, "why", "demand", EXPECT
    )
    return replace(made, **changes)


def lease(proposal: Proposal, state: LeaseState = LeaseState.APPLIED) -> Lease:
    return Lease(
        id="01LEASE",
        target=proposal.target,
        subject=proposal.subject,
        kind=proposal.kind,
        change=proposal.change,
        revert_to={},
        reason="",
        cause="",
        evidence={},
        expect=EXPECT,
        on_expiry=OnExpiry.REVERT,
        slo="",
        episode=None,
        created_at=START,
        expires_at=START + timedelta(minutes=1),
        verify_by=START + timedelta(minutes=1),
        state=state,
        changed_at=START,
    )


def context(**changes: Any) -> Context:
    return replace(Context(evidence(fleets=(fleet(2),)), (), {}, START), **changes)


def refused_by(proposal: Proposal, seen: Context) -> str | None:
    _, refused = guard([proposal], seen, SETTINGS)
    return refused[0].rule if refused else None


@pytest.mark.parametrize(
    ("proposal", "seen", "rule"),
    [
        (shed(), context(kill_switch=True), "kill_switch"),
        (shed(), context(holds={"gateway/demo": "ana"}), "hold"),
        (shed(subject=""), context(), "ceiling"),
        (shed(subject="priority=interactive"), context(), "protected"),
        (scale(2), context(), "bounds"),
        (shed(), context(leases=[lease(shed())]), "open_lease"),
        (shed(subject="tenant=beta"), context(leases=[lease(shed())]), "in_flight"),
        (shed(), context(recent={shed().key: (START - timedelta(seconds=5),)}), "cooldown"),
        (scale(3), context(recent={scale(3).key: (START - timedelta(minutes=9),) * 30}), "rate"),
        (scale(3), replace(context(), evidence=evidence(fleets=())), "unknown"),
    ],
)
def test_a_proposal_is_refused_by(proposal: Proposal, seen: Context, rule: str) -> None:
    assert refused_by(proposal, seen) == rule


def test_a_second_tenant_may_be_shed_once_the_first_shed_is_proven() -> None:
    proven = lease(shed(), LeaseState.VERIFIED)

    assert refused_by(shed(subject="tenant=beta"), context(leases=[proven])) is None


@pytest.mark.parametrize("step", [Step.EASE, Step.END])
def test_giving_back_is_stopped_by_people_only(step: Step) -> None:
    busy = context(recent={shed().key: (START,) * 100})
    back = shed(step=step, lease_id="01LEASE")

    assert refused_by(back, busy) is None
    assert refused_by(back, replace(busy, holds={"gateway/demo": "ana"})) == "hold"


@pytest.mark.parametrize(("asked", "given"), [(0.95, 0.9), (7.0, 0.9), (-1.0, 0.0), (nan, 0.0)])
def test_a_shed_never_passes_the_ceiling(asked: float, given: float) -> None:
    (allowed,), _ = guard([shed(asked)], context(), SETTINGS)

    assert allowed.change["fraction"] == given


@pytest.mark.parametrize(("asked", "given"), [(100, 6), (5, 5), (-3, 1), (0, 1)])
def test_replicas_stay_within_bounds_and_steps(asked: int, given: int) -> None:
    (allowed,), _ = guard([scale(asked)], context(), SETTINGS)

    assert allowed.change["desired"] == given


def test_one_step_up_at_most_doubles_or_adds_four() -> None:
    settings = make_settings(fleets=[{"name": "chat", "url": "http://f", "min": 1, "max": 100}])
    big = replace(fleet(2), state=replace(fleet(2).state, value=replace_max(10)))
    (allowed,), _ = guard([scale(90)], context(evidence=evidence(fleets=(big,))), settings)

    assert allowed.change["desired"] == 20


def replace_max(desired: int) -> Any:
    from actuators.evidence import FleetState

    return FleetState(desired, desired, 0, 1, 100)
