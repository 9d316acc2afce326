"""Laws that hold whatever burns, breaks, dies or is silenced, in any order."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from alerts import silences
from alerts.matchers import Matcher
from alerts.read import active
from alerts.silences import Silence

World = Any  # see conftest.py
Key = tuple[str, str]  # fingerprint, start: one episode as a receiver sees it

TENANTS = ("acme", "beta")
KINDS = ("paging", "ticketing", "calm", "stale", "missing")
UNCLEAR = (503, "lost", "heard but lost")
FATES = (200, 429, 503, 400, "refused", "lost", "heard but lost")


class Incidents:
    """What an honest receiver believes, rebuilt from the bodies it heard."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.read = 0
        self.open: set[Key] = set()
        self.closed: set[Key] = set()

    def follow(self, doubtful: set[Key]) -> None:
        heard = self.world.pager.heard
        for body in heard[self.read :]:
            for alert in body["alerts"]:
                key = (alert["fingerprint"], alert["startsAt"])
                if alert["status"] == "firing":
                    assert key not in self.closed, "an episode was opened twice"
                    self.open.add(key)
                else:
                    assert key in self.open | doubtful, "a resolve without an open"
                    self.open.discard(key)
                    self.closed.add(key)
        self.read = len(heard)


def machine(make_world: Callable[..., World], say: SimpleNamespace) -> type[RuleBasedStateMachine]:
    class Plane(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.world = make_world(
                group_wait="5s", group_interval="30s", keep_firing_for="20s", repeat_interval="10m"
            )
            self.incidents = Incidents(self.world)
            self.doubtful: set[Key] = set()
            self.now_says = dict.fromkeys(TENANTS, "calm")

        @rule(
            kinds=st.tuples(*[st.sampled_from(KINDS)] * len(TENANTS)),
            seconds=st.integers(1, 90),
        )
        def tick(self, kinds: tuple[str, ...], seconds: int) -> None:
            self.now_says = dict(zip(TENANTS, kinds, strict=True))
            self.world.judge(*self.verdicts(), after=timedelta(seconds=seconds))

        @rule(fates=st.lists(st.sampled_from(FATES), max_size=4), seconds=st.integers(0, 90))
        def deliver(self, fates: list[int | str], seconds: int) -> None:
            self.world.pager.plan = fates
            self.world.deliver(after=timedelta(seconds=seconds))
            self.world.pager.plan = []
            self.remember_attempts()

        @rule(has_sent=st.booleans(), seconds=st.integers(0, 120))
        def die_while_delivering(self, has_sent: bool, seconds: int) -> None:
            worker, receiver = self.world.worker, self.world.receivers[0]
            claimed = worker._claim(receiver, self.world.clock.now())
            if claimed is not None and has_sent:
                worker._send(receiver, claimed, self.world.clock.now())
            self.remember_attempts(claimed)
            self.world.restart()
            self.world.clock.advance(timedelta(seconds=seconds))

        @rule(has_committed=st.booleans())
        def die_while_judging(self, has_committed: bool) -> None:
            if has_committed:
                self.world.judge(*self.verdicts())
            else:
                self.fail_in_the_middle_of_a_tick()
            self.world.restart()

        @rule(tenant=st.sampled_from(TENANTS), seconds=st.integers(1, 300))
        def silence(self, tenant: str, seconds: int) -> None:
            now = self.world.clock.now()
            ends_at = now + timedelta(seconds=seconds)
            name = f"s{now.timestamp()}{tenant}{seconds}"[:36]
            matchers = (Matcher("tenant", tenant),)
            with self.world.db.begin() as connection:
                if silences.find(connection, name) is None:
                    silence = Silence(name, matchers, now, ends_at, "sre", "", updated_at=now)
                    silences.add(connection, silence, now)

        @invariant()
        def receivers_are_told_sense(self) -> None:
            self.incidents.follow(self.doubtful)

        def teardown(self) -> None:
            for kind in ("paging", "calm"):
                self.now_says = dict.fromkeys(TENANTS, kind)
                for _ in range(6):
                    self.world.tick(*self.verdicts(), after=timedelta(minutes=10))
                self.remember_attempts()
                self.incidents.follow(self.doubtful)
                now = self.world.clock.now()
                firing = {alert.fingerprint for alert in active(self.world.db, now)}
                assert {fingerprint for fingerprint, _ in self.incidents.open} == firing
                assert len(firing) == (len(TENANTS) if kind == "paging" else 0)

        def verdicts(self) -> list[Any]:
            return [
                getattr(say, kind)(group={"tenant": tenant})
                for tenant, kind in self.now_says.items()
                if kind != "missing"
            ]

        def fail_in_the_middle_of_a_tick(self) -> None:
            notifier = type(self.world.receivers[0].notifier)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(notifier, "render", _power_cut)
                try:
                    self.world.judge(*self.verdicts())
                except PowerCut:
                    return

        def remember_attempts(self, claimed: Any = None) -> None:
            """Collect what was sent without a clear answer: its end may come unopened or twice."""
            pager = self.world.pager
            tries = zip(pager.requests, pager.fates, strict=True)
            bodies = [r.content for r, fate in tries if fate in UNCLEAR]
            for body in [*bodies, *([claimed.message.body] if claimed else [])]:
                for alert in json.loads(body)["alerts"]:
                    self.doubtful.add((alert["fingerprint"], alert["startsAt"]))

    return Plane


class PowerCut(BaseException):
    pass


def _power_cut(*_: object) -> bytes:
    raise PowerCut


@pytest.mark.slow
def test_no_incident_opens_twice_ends_unopened_or_is_lost(
    make_world: Callable[..., World], say: SimpleNamespace
) -> None:
    run_state_machine_as_test(
        machine(make_world, say),
        settings=settings(
            max_examples=15,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
