"""Fleet drivers: HTTP, KEDA and none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from rig import Rig
from sqlalchemy import Engine
from test_guard import lease, scale
from world import START

from actuators.drivers.fleet import HttpFleet
from actuators.drivers.keda_fleet import KedaFleet
from actuators.drivers.noop import NoopFleet
from actuators.lease import LeaseState
from actuators.settings import FleetSettings
from actuators.signals import SignalBoard
from base.errors import Permanent, Retryable

DOCUMENT = {
    "desired": 2,
    "ready": 1,
    "pending": 1,
    "min": 1,
    "max": 4,
    "replicas": [
        {"id": "r0", "url": "http://127.0.0.1:1", "state": "ready", "gpu_type": "h100"},
        {"id": "r1", "url": "http://127.0.0.1:2", "state": "starting"},
    ],
    "last_change": {"by": "ana", "lease_id": None, "at": "2026-11-30T12:00:00Z"},
}


def fleet(answer: Callable[[httpx.Request], httpx.Response]) -> HttpFleet:
    client = httpx.Client(transport=httpx.MockTransport(answer))
    return HttpFleet("chat", "http://user:secret@fleet.test/x", client)


def test_a_fleet_is_read_with_its_ready_replicas_and_who_changed_it() -> None:
    state = fleet(lambda _: httpx.Response(200, json=DOCUMENT)).read(START)

    assert (state.desired, state.ready, state.pending) == (2, 1, 1)
    assert state.replicas == ("r0",)
    assert state.changed_by == "ana"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(503), Retryable),
        (httpx.Response(429), Retryable),
        (httpx.Response(404), Permanent),
        (httpx.Response(200, json={"desired": "many"}), Permanent),
        (httpx.Response(200, text="<html>"), Permanent),
    ],
)
def test_a_bad_answer_is_an_error_without_secrets(
    answer: httpx.Response, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        fleet(lambda _: answer).read(START)

    assert "chat" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_fleet_that_grants_another_number_has_refused() -> None:
    with pytest.raises(Permanent, match="granted 2 replicas instead of 5"):
        fleet(lambda _: httpx.Response(200, json=DOCUMENT)).enact(
            lease(scale(5)), {"desired": 5}, START
        )


def test_a_fleet_that_can_not_be_asked_is_neither_in_place_nor_not() -> None:
    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no")

    assert fleet(refuse).in_place(lease(scale(2)), START) is None


class Beats:
    """Answers the heartbeat query."""

    def __init__(self, *replicas: str) -> None:
        self.replicas = replicas

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        return [{"instance": r, "model": "m", "last": START} for r in self.replicas]


def keda_fleet(db: Engine, *replicas: str) -> tuple[KedaFleet, SignalBoard]:
    board = SignalBoard({"chat": 1}, timedelta(seconds=30))
    configured = FleetSettings(name="chat", driver="keda", min=1, max=6)
    made = KedaFleet(configured, Beats(*replicas), db, board, timedelta(seconds=45))
    return made, board


def test_a_keda_fleet_is_described_by_heartbeats_until_it_is_told_a_number(db: Engine) -> None:
    driver, _ = keda_fleet(db, "r0", "r1")
    before = driver.read(START)
    driver.enact(lease(scale(4)), {"desired": 4}, START)
    after = driver.read(START)

    assert (before.desired, before.ready) == (2, 2)
    assert (after.desired, after.ready, after.pending) == (4, 2, 2)
    assert keda_fleet(db)[0].read(START).desired == 4, "a restart goes on with it"


def test_a_keda_fleet_that_nobody_knows_anything_of_is_unknown(db: Engine) -> None:
    with pytest.raises(Retryable, match="no replica sends heartbeats"):
        keda_fleet(db)[0].read(START)


def test_a_number_is_in_place_once_keda_has_taken_it(db: Engine) -> None:
    driver, board = keda_fleet(db, "r0")
    held = replace(lease(scale(4)), changed_at=START)
    unasked = driver.in_place(held, START)
    board.asked("chat", START - timedelta(seconds=1))
    before = driver.in_place(held, START)
    board.asked("chat", START + timedelta(seconds=1))

    assert (unasked, before) == (None, False)
    assert driver.in_place(held, START) is True


def test_a_noop_fleet_does_what_it_is_told_and_nothing_happens() -> None:
    driver = NoopFleet(FleetSettings(name="chat", driver="noop"))
    driver.enact(lease(scale(3)), {"desired": 3}, START)

    assert driver.in_place(lease(scale(3)), START) is True
    assert driver.read(START).desired == 3


def test_a_scale_in_that_hurts_is_taken_back_at_once_and_not_tried_again(
    rig_of: Callable[..., Rig],
) -> None:
    rig = rig_of(scale_in=True)
    rig.world.set_desired(4, by="ana")
    rig.run(440)

    shrinks = [x for x in rig.leases() if x.cause == "calm"]
    assert [(x.change["desired"], x.state) for x in shrinks] == [
        (3, LeaseState.VERIFIED),
        (2, LeaseState.VERIFIED),
        (1, LeaseState.FAILED),
    ]
    failed = shrinks[-1]
    assert failed.closed_at is not None
    assert (failed.closed_at - failed.created_at).total_seconds() <= 10
    assert rig.world.desired >= 2
