"""The policy document: versions, ETags, long poll, and proof that a gateway took it."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from rig import Rig

from actuators.drivers.gateway import PolicyBoard
from actuators.lease import Kind
from base.clock import SystemClock
from base.durations import parse_instant
from base.errors import BadInput


def test_a_document_without_leases_has_no_rules(rig: Rig) -> None:
    policy = rig.drivers.policies.current("demo", rig.clock.now())

    assert policy.document == {
        "gateway": "demo",
        "version": 0,
        "issued_at": "2026-11-30T12:10:00.000Z",
        "expires_at": "2026-11-30T12:10:30.000Z",
        "ttl_s": 30.0,
        "rules": [],
    }


def test_a_rule_is_what_its_lease_says_and_ends_with_it(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0
    rig.run(30)
    lease = next(x for x in rig.open() if x.kind is Kind.SHED)
    (rule,) = rig.drivers.policies.current("demo", rig.clock.now()).document["rules"]

    assert rule["id"] == lease.id
    assert rule["match"] == {"tenant": "acme", "route": None, "priority": None, "model": None}
    assert rule["action"] == "shed"
    assert rule["fraction"] == lease.change["fraction"]
    assert 1 <= rule["retry_after_s"] <= 60
    assert rule["reason"] == "tenant acme: tenant_flood"
    assert parse_instant(rule["expires_at"]) == lease.expires_at


def test_an_extended_lease_is_a_new_version_but_not_a_new_demand(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0
    rig.run(40)
    board, now = rig.drivers.policies, rig.clock.now()
    before = board.current("demo", now).version
    ends = next(x for x in rig.open() if x.kind is Kind.SHED).expires_at
    rig.run(60)
    lease = next(x for x in rig.open() if x.kind is Kind.SHED)

    assert lease.expires_at > ends
    assert board.current("demo", rig.clock.now()).version > before
    assert board.taken(lease, rig.clock.now())


def test_a_rule_that_ended_is_not_served_even_if_the_loop_is_dead(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0
    rig.run(30)
    board, before = rig.drivers.policies, rig.drivers.policies.current("demo", rig.clock.now())
    rig.clock.advance(timedelta(minutes=5))
    after = board.current("demo", rig.clock.now())

    assert before.document["rules"]
    assert after.document["rules"] == []
    assert after.etag != before.etag


def test_a_policy_is_taken_once_every_instance_names_its_version(rig: Rig) -> None:
    rig.world.gateway_down = True
    rig.world.rates["acme"] = 40.0
    rig.run(30)
    lease = next(x for x in rig.open() if x.kind is Kind.SHED)
    board, now = rig.drivers.policies, rig.clock.now()
    version = board.current("demo", now).version
    unheard = board.taken(lease, now)
    board.heard("demo", "gw-0", version, now)
    board.heard("demo", "gw-1", 0, now)
    half = board.taken(lease, now)
    board.heard("demo", "gw-1", version, now)

    assert unheard is None
    assert half is False
    assert board.taken(lease, now) is True


def test_a_waiting_gateway_is_answered_as_soon_as_something_changes(rig: Rig) -> None:
    board = PolicyBoard(rig.db, {"demo": timedelta(seconds=30)}, SystemClock())
    etag = board.current("demo", SystemClock().now()).etag
    answers: list[int] = []
    poll = threading.Thread(target=lambda: answers.append(board.wait("demo", etag, 20).version))
    poll.start()
    rig.drivers.policies.publish("demo", SystemClock().now())  # as another process would
    board.publish("demo", SystemClock().now())
    poll.join(10)

    assert answers == [1]


def test_a_stopping_process_answers_who_waits_and_lets_nobody_wait(rig: Rig) -> None:
    board = PolicyBoard(rig.db, {"demo": timedelta(seconds=30)}, SystemClock())
    etag = board.current("demo", SystemClock().now()).etag
    answers: list[str] = []
    poll = threading.Thread(target=lambda: answers.append(board.wait("demo", etag, 60).etag))
    poll.start()
    board.close()
    poll.join(10)

    assert answers == [etag]
    assert board.wait("demo", etag, 60).etag == etag, "returns at once"


def test_waiting_is_bounded_and_the_seventeenth_waiter_is_answered_at_once(rig: Rig) -> None:
    board = PolicyBoard(rig.db, {"demo": timedelta(seconds=30)}, SystemClock())
    etag = board.current("demo", SystemClock().now()).etag
    for _ in range(16):
        assert board._waiters.acquire(blocking=False)

    assert board.wait("demo", etag, 60).etag == etag


def test_an_unknown_gateway_is_refused_with_the_names_of_the_known(rig: Rig) -> None:
    with pytest.raises(BadInput, match="configured: demo"):
        rig.drivers.policies.current("other", rig.clock.now())
