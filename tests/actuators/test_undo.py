"""Giving back: when, in which steps, and how patiently."""

from __future__ import annotations

from datetime import timedelta

import pytest
from rig import Rig, make_settings
from snapshots import evidence, fleet, tenant, verdict
from world import START

from actuators.lease import Expect, HistoryStep, Kind, Lease, LeaseState, OnExpiry
from actuators.proposal import Proposal, Step
from actuators.undo import undo

SETTINGS = make_settings()  # calm_for 30 s, undo_every 15 s
AGO = timedelta(minutes=5)


def shed_of_acme(*steps: str) -> Lease:
    """A verified shed of 80 %, opened five minutes ago; `steps` is what happened to it."""
    return Lease(
        id="1",
        target="gateway/demo",
        subject="tenant=acme",
        kind=Kind.SHED,
        change={"match": {"tenant": "acme"}, "fraction": 0.8, "retry_after_s": 5},
        revert_to={},
        reason="",
        cause="tenant_flood:acme",
        evidence={"numbers": {"baseline_work_per_s": 1000.0}},
        expect=Expect("queue_p95_ms", "down", 0.2, timedelta(seconds=45), 4000.0, 500.0),
        on_expiry=OnExpiry.REVERT,
        slo="chat",
        episode=None,
        created_at=START - AGO,
        expires_at=START + AGO,
        verify_by=START,
        state=LeaseState.VERIFIED,
        changed_at=START - AGO,
        history=tuple(HistoryStep(START - AGO, step, "") for step in steps),
    )


def undone(lease: Lease, acme: float, *, calm_s: float = 40, earlier: int = 0) -> list[Proposal]:
    seen = evidence(
        tenants=(tenant("acme", acme), tenant("beta", 1000.0)),
        verdicts=(verdict(0.0),),
        fleets=(fleet(4),),
    )
    recent = {lease.key: (START - 2 * AGO,) * earlier}
    calm = timedelta(seconds=calm_s)
    return list(undo(seen, [lease], recent, frozenset(), calm=calm, settings=SETTINGS, now=START))


def test_a_flood_that_has_ended_is_let_go_in_one_step() -> None:
    (step,) = undone(shed_of_acme("applied", "verified"), acme=2000.0)

    assert step.step is Step.END
    assert "sends no more than others can bear" in step.reason


def test_a_flood_that_goes_on_but_fits_is_let_in_by_halves() -> None:
    (step,) = undone(shed_of_acme("applied", "verified"), acme=20_000.0)

    assert (step.step, step.change["fraction"]) == (Step.EASE, 0.4)


def test_a_flood_that_does_not_fit_stays_out() -> None:
    assert undone(shed_of_acme("applied", "verified"), acme=90_000.0) == []


@pytest.mark.parametrize(
    ("steps", "earlier", "enough_s"),
    [
        (("applied", "verified"), 0, 30),
        (("applied", "raised", "applied", "raised", "verified"), 0, 30),  # felt its way up
        (("applied", "eased", "raised", "verified"), 0, 60),  # was needed again
        (("applied", "verified"), 2, 120),  # as in two leases before
        (("applied", "verified"), 9, 240),
    ],
)
def test_a_lever_that_was_needed_again_comes_off_slower(
    steps: tuple[str, ...], earlier: int, enough_s: float
) -> None:
    lease = shed_of_acme(*steps)

    assert undone(lease, 2000.0, calm_s=enough_s - 1, earlier=earlier) == []
    assert undone(lease, 2000.0, calm_s=enough_s, earlier=earlier) != []


def test_a_tenant_is_free_again_soon_after_its_flood(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0
    rig.run(90)
    rig.world.rates["acme"] = 4.0
    ended = rig.clock.now()
    rig.run(90)

    shed = next(x for x in rig.leases() if x.kind is Kind.SHED)
    assert shed.closed_at is not None
    assert shed.closed_at - ended <= timedelta(seconds=60)
    assert "eased" not in {entry.step for entry in shed.history}
