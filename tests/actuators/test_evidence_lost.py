"""Stale, absent and nonsensical evidence: nothing new, nothing undone, leases run out safely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import pytest
from rig import Rig

from actuators import queries
from actuators.lease import Kind, LeaseState
from base.errors import Retryable
from slo.verdict import State


def flooded(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0
    rig.run(60)
    assert {x.state for x in rig.open()} == {LeaseState.VERIFIED}


def test_silence_freezes_leases_and_says_so(rig: Rig) -> None:
    flooded(rig)
    rig.world.silent = True
    rig.run(25)

    assert {x.state for x in rig.open()} == {LeaseState.FROZEN}
    report = rig.loop.reports["demo"]
    assert not report.trust.ok
    assert "silent since" in report.trust.reasons[0]
    assert report.causes[0].kind == "telemetry_fault"


def test_silence_changes_nothing_and_leases_run_out_to_the_safe_state(rig: Rig) -> None:
    flooded(rig)
    replicas, puts = rig.world.desired, list(rig.world.puts)
    rig.world.silent = True
    rig.run(300)

    assert rig.open() == []
    assert {x.state for x in rig.leases()} == {LeaseState.EXPIRED}
    assert list(rig.world.rules()) == [], "a shed ends by itself"
    assert rig.world.puts == puts, "capacity is never taken away on lost evidence"
    assert rig.world.desired == replicas


def test_a_flood_in_the_dark_is_not_acted_on(rig: Rig) -> None:
    rig.world.silent = True
    rig.world.rates["acme"] = 40.0
    rig.run(120)

    # The verdicts were read before they went stale at most once; the source had spoken then.
    assert rig.leases() == []


def test_evidence_that_comes_back_thaws_the_lease_with_its_time_to_prove_itself(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0
    rig.run(15)
    shed = next(x for x in rig.open() if x.kind is Kind.SHED)
    assert shed.state is LeaseState.APPLIED
    rig.world.silent = True
    rig.run(30)
    frozen = next(x for x in rig.open() if x.kind is Kind.SHED)
    rig.world.silent = False
    rig.run(5)

    thawed = next(x for x in rig.open() if x.kind is Kind.SHED)
    assert frozen.state is LeaseState.FROZEN
    assert thawed.state in {LeaseState.APPLIED, LeaseState.VERIFIED}
    assert thawed.verify_by > shed.verify_by
    assert [h.step for h in thawed.history][-3:] in (
        ["applied", "frozen", "thawed"],
        ["frozen", "thawed", "verified"],
    )


def test_a_stale_signal_is_an_error_and_never_a_number(rig: Rig) -> None:
    flooded(rig)
    assert rig.drivers.signals.read("chat", rig.clock.now())[1] == rig.world.desired
    rig.world.silent = True
    rig.run(25)

    with pytest.raises(Retryable, match="silent"):
        rig.drivers.signals.read("chat", rig.clock.now())


def test_a_loop_that_stopped_looks_like_an_outage(rig: Rig) -> None:
    rig.run(10)
    rig.world.run(120)

    with pytest.raises(Retryable, match="last decision"):
        rig.drivers.signals.read("chat", rig.clock.now())


def test_a_fleet_that_does_not_answer_freezes_its_lease_only(rig: Rig) -> None:
    flooded(rig)
    rig.world.fleet_down = True
    rig.run(20)

    states = {x.kind: x.state for x in rig.open()}
    assert states == {Kind.SHED: LeaseState.VERIFIED, Kind.SCALE: LeaseState.FROZEN}


def test_a_fleet_that_refuses_the_change_leaves_nothing_half_done(rig: Rig) -> None:
    flooded(rig)
    rig.world.rates["acme"] = 4.0
    rig.world.fleet_down = True
    rig.run(200)
    rig.world.fleet_down = False
    rig.run(300)

    assert rig.open() == []
    assert list(rig.world.rules()) == []


@pytest.mark.parametrize("column", ["queue_p95_ms", "ttft_p95_ms", "duration_p95_ms"])
@pytest.mark.parametrize("value", [nan, None, float("inf")])
def test_a_number_that_is_none_is_absent_and_never_zero(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, column: str, value: float | None
) -> None:
    ask = rig.world.rows

    def broken(sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        rows = ask(sql, params)
        return [{**row, column: value} for row in rows] if sql == queries.LATENCIES else rows

    monkeypatch.setattr(
        type(rig.world), "rows", lambda _self, sql, params=None: broken(sql, params)
    )
    rig.world.rates["acme"] = 40.0
    rig.run(60)

    for lease in rig.leases():
        before = lease.expect.before
        assert before is None or before == before  # noqa: PLR0124  NaN differs from itself
        if column == "queue_p95_ms":
            assert lease.expect.metric != "queue_p95_ms"


def test_a_store_that_fails_freezes_leases_instead_of_stopping_the_loop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    flooded(rig)

    def fail(_self: object, _sql: str, _params: object = None) -> list[dict[str, Any]]:
        raise Retryable("too many parts")

    monkeypatch.setattr(type(rig.world), "rows", fail)
    rig.world.run(5)
    (report,) = rig.tick()

    assert report.trust.reasons == ("no telemetry of demo: store: too many parts",)
    assert {x.state for x in rig.open()} == {LeaseState.FROZEN}
    with pytest.raises(Retryable, match="too many parts"):
        rig.drivers.signals.read("chat", rig.clock.now())


def test_no_verdict_at_all_is_no_reason_to_act_or_to_undo(rig: Rig) -> None:
    flooded(rig)
    before = len(rig.leases())
    for _ in range(6):
        rig.world.run(5)
        rig.loop.tick([], rig.clock.now())

    assert len(rig.leases()) == before
    assert {x.state for x in rig.open()} == {LeaseState.FROZEN}


@pytest.mark.parametrize("state", [State.STALE, State.ABSENT])
def test_a_burn_rate_under_a_stale_or_absent_verdict_is_not_believed(
    rig: Rig, state: State
) -> None:
    rig.world.rates["acme"] = 40.0
    for _ in range(12):
        rig.world.run(5)
        verdicts = [replace(v, state=state) for v in rig.world.verdicts()]
        rig.loop.tick(verdicts, rig.clock.now())

    assert rig.leases() == []


def test_one_silent_group_does_not_blind_the_others(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0

    def with_a_quiet_group() -> Sequence[Any]:
        (verdict,) = rig.world.verdicts()
        return [verdict, replace(verdict, group={"tenant": "quiet"}, state=State.ABSENT)]

    for _ in range(6):
        rig.world.run(5)
        rig.loop.tick(with_a_quiet_group(), rig.clock.now())

    assert rig.open()


def test_nan_burn_rates_are_neither_hot_nor_calm(rig: Rig) -> None:
    flooded(rig)
    rig.world.rates["acme"] = 4.0
    held = {x.id for x in rig.open()}
    for _ in range(40):
        rig.world.run(5)
        verdicts = [
            replace(
                v,
                tiers=tuple(
                    replace(t, long_burn=nan, short_burn=nan, burning=False) for t in v.tiers
                ),
            )
            for v in rig.world.verdicts()
        ]
        rig.loop.tick(verdicts, rig.clock.now())

    assert {x.id for x in rig.open()} == held
    assert all(h.step != "eased" for x in rig.open() for h in x.history)
