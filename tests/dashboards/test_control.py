"""Leases and alerts in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from instance import leases

from actuators.lease import Expect, Kind, LeaseState
from dashboards.control import action_words, lease_view

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SHED, SCALE, CAP = leases(NOW)


@pytest.mark.parametrize(
    ("lease", "words"),
    [
        (SHED, "shed 75 % of tenant acme"),
        (SCALE, "scale fleet/demo 2 → 3 replicas"),
        (CAP, "cap tenant globex at 8 in flight"),
        (replace(SHED, subject=""), "shed 75 % of gateway/demo"),
    ],
)
def test_an_act_is_said_in_words(lease: object, words: str) -> None:
    assert action_words(lease) == words  # type: ignore[arg-type]


def test_a_verified_act_shows_what_it_changed() -> None:
    assert lease_view(SHED).effect == "ttft p95 ms 4.13k → 912"


def test_an_act_in_flight_shows_what_it_promised() -> None:
    assert lease_view(SCALE).effect == "ttft p95 ms must fall by 50 % by 11:54:00"


def test_giving_capacity_back_promises_that_nothing_gets_worse() -> None:
    hold = Expect("ttft_p95_ms", "hold", 0.0, timedelta(minutes=3), 400.0, 1500.0)

    assert "must stay below 1.5k" in lease_view(replace(SCALE, expect=hold)).effect


def test_a_frozen_act_says_why_it_is_not_judged() -> None:
    frozen = replace(SHED, state=LeaseState.FROZEN, frozen_from=LeaseState.APPLIED)

    assert lease_view(frozen).effect == "not judged: the target confirmed it"


def test_a_closed_act_has_no_expiry_left() -> None:
    view = lease_view(CAP)

    assert view.expires_at is None
    assert view.closed_at is not None
    assert view.kind == str(Kind.CAP)
