"""How failures of receivers are met."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from alerts import endpoints
from alerts.delivery import SCHEDULE, backoff
from alerts.endpoints import Endpoint
from alerts.read import active

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
World = Any  # see conftest.py

TWO = [
    {"name": "pager", "type": "webhook", "url": "http://pager.test/hook"},
    {"name": "chat", "type": "webhook", "url": "http://chat.test/hook"},
]


def health(world: World, name: str = "pager") -> Endpoint:
    with world.db.begin() as connection:
        return endpoints.load(connection)[name]


def second_pager(world: World) -> Any:
    chat = type(world.pager)()
    world.pagers["chat.test"] = chat
    return chat


def test_the_schedule_is_quick_at_first_and_then_every_five_minutes() -> None:
    waits = [backoff(attempt, 1.0).total_seconds() for attempt in range(1, 9)]

    assert waits == [5, 15, 30, 60, 120, 300, 300, 300]
    assert backoff(3, 0.5) == SCHEDULE[2] / 2
    assert backoff(1, 0.0) == SECOND


def test_a_message_is_tried_until_it_is_delivered(world: World, say: SimpleNamespace) -> None:
    world.pager.plan = ["refused", 503, 429, 200]
    world.tick(say.paging())
    for _ in range(60):
        world.deliver(after=SECOND)

    tried = [int(r.headers["webhook-timestamp"]) for r in world.pager.requests]
    assert [late - early for early, late in pairwise(tried)] == [5, 15, 30]
    assert world.pager.reasons == ["first notification"]


def test_retry_after_is_obeyed_by_every_message_to_that_receiver(
    world: World, say: SimpleNamespace
) -> None:
    world.pager.plan = [429]
    world.pager.answer_headers = {"Retry-After": "300"}
    world.tick(say.paging(slo="one"))
    for _ in range(29):
        world.tick(say.paging(slo="one"), say.paging(slo="two"), after=10 * SECOND)
    assert len(world.pager.requests) == 1

    world.tick(say.paging(slo="one"), say.paging(slo="two"), after=10 * SECOND)

    assert len(world.pager.heard) == 2


def test_after_five_failures_one_probe_a_minute(world: World, say: SimpleNamespace) -> None:
    world.pager.default = 503
    slos = [say.paging(slo=f"slo-{n}") for n in range(8)]
    world.tick(*slos)
    assert len(world.pager.requests) == 5

    for _ in range(30):
        world.tick(*slos, after=10 * SECOND)
    assert len(world.pager.requests) == 10
    assert health(world).failures == 10

    world.pager.default = 200
    world.tick(*slos, after=MINUTE)
    for _ in range(60):
        world.tick(*slos, after=10 * SECOND)
    assert {body["groupLabels"]["slo"] for body in world.pager.heard} == {
        f"slo-{n}" for n in range(8)
    }
    assert health(world).failures == 0


def test_a_refused_message_is_dead_and_not_said_again_at_every_tick(
    world: World, say: SimpleNamespace
) -> None:
    world.pager.plan = [400]
    world.pager.answer_text = "no such integration"
    world.tick(say.paging())
    for _ in range(10):
        world.tick(say.paging(), after=MINUTE)

    assert len(world.pager.requests) == 1
    alert, own = active(world.db, world.clock.now())
    assert (alert.slo, own.alertname) == ("chat-ttft", "TokenweirReceiverFailing")
    (note,) = alert.notifications
    assert (note.status, note.detail, note.http_status) == (
        "dead",
        "HTTP 400: no such integration",
        400,
    )
    world.tick(say.calm(), after=MINUTE)
    assert len(world.pager.requests) == 1


def test_a_refused_message_is_tried_again_after_the_repeat_interval(
    world: World, say: SimpleNamespace
) -> None:
    world.pager.plan = [400]
    world.tick(say.paging())
    world.tick(say.paging(), after=4 * HOUR)

    assert [body["status"] for body in world.pager.heard] == ["firing"]


def test_a_refused_resolve_is_repeated_only_after_the_interval(
    world: World, say: SimpleNamespace
) -> None:
    world.pager.plan = [200, 400]
    world.tick(say.paging())
    for _ in range(5):
        world.tick(say.calm(), after=MINUTE)

    assert len(world.pager.requests) == 2
    world.tick(say.calm(), after=4 * HOUR)
    assert [body["status"] for body in world.pager.heard] == ["firing", "resolved"]


def test_the_other_receivers_hear_of_one_that_fails(world: World, say: SimpleNamespace) -> None:
    world.restart(receivers=TWO)
    chat = second_pager(world)
    world.pager.default = 400
    world.tick(say.paging())
    world.tick(say.paging(), after=10 * SECOND)

    (_, failing) = chat.heard
    assert failing["groupLabels"] == {"alertname": "TokenweirReceiverFailing"}
    assert failing["alerts"][0]["labels"]["receiver"] == "pager"
    assert "HTTP 400" in failing["alerts"][0]["annotations"]["summary"]
    assert len(world.pager.requests) == 1

    world.pager.default = 200
    world.tick(say.calm(), after=4 * HOUR)
    world.tick(say.paging(), after=MINUTE)
    world.tick(say.paging(), after=MINUTE)
    assert chat.heard[-1]["status"] == "resolved"


def test_a_receiver_that_is_gone_is_left_alone_until_it_is_enabled(
    world: World, say: SimpleNamespace
) -> None:
    world.pager.plan = [410]
    world.tick(say.paging())
    world.tick(say.paging(), after=24 * HOUR)
    assert (len(world.pager.requests), health(world).is_disabled) == (1, True)

    with world.db.begin() as connection:
        assert endpoints.enable(connection, "pager")
        assert not endpoints.enable(connection, "nobody")
    world.tick(say.paging(), after=MINUTE)

    assert [body["status"] for body in world.pager.heard] == ["firing"]


def test_a_changed_configuration_gets_a_fresh_start(world: World, say: SimpleNamespace) -> None:
    world.pager.plan = [401]
    world.tick(say.paging())
    world.restart()
    world.tick(say.paging(), after=MINUTE)
    assert world.pager.heard == []

    world.restart(receivers=[{"name": "pager", "type": "webhook", "url": "http://pager.test/new"}])
    world.tick(say.paging(), after=MINUTE)

    assert [body["status"] for body in world.pager.heard] == ["firing"]


def test_a_receiver_that_is_taken_out_leaves_nothing_behind(
    world: World, say: SimpleNamespace
) -> None:
    world.restart(receivers=TWO)
    second_pager(world)
    world.pager.default = 503
    for _ in range(10):
        world.tick(say.paging(), after=MINUTE)
    assert len(active(world.db, world.clock.now())) == 2

    world.restart(receivers=TWO[1:])
    world.tick(say.paging(), after=MINUTE)

    assert [alert.slo for alert in active(world.db, world.clock.now())] == ["chat-ttft"]
    assert not [status for status, _ in world.outbox() if status in {"queued", "sending"}]


def test_a_dead_receiver_delays_nobody_else(world: World, say: SimpleNamespace) -> None:
    world.restart(receivers=TWO)
    chat = second_pager(world)
    world.pager.default = "lost"
    world.tick(say.paging())

    assert chat.reasons == ["first notification"]


def test_a_resolve_nobody_takes_is_dropped_after_a_day(world: World, say: SimpleNamespace) -> None:
    world.tick(say.paging())
    world.pager.default = 503
    for _ in range(26):
        world.tick(say.calm(), after=HOUR)

    assert world.outbox()[-1] == ("dropped", "all alerts resolved")


def test_a_page_that_still_burns_is_never_too_old(world: World, say: SimpleNamespace) -> None:
    world.pager.default = 503
    for _ in range(30):
        world.tick(say.paging(), after=HOUR)
    world.pager.default = 200
    world.tick(say.paging(), after=HOUR)

    assert [body["status"] for body in world.pager.heard] == ["firing"]


def test_threads_deliver_while_one_receiver_hangs(world: World, say: SimpleNamespace) -> None:
    world.restart(receivers=TWO)
    chat = second_pager(world)
    hang = threading.Event()
    answer = world.pager.__call__
    world.pagers["pager.test"] = lambda request: (hang.wait(10), answer(request))[1]
    world.worker.start()

    world.judge(say.paging())
    world.worker.wake()
    _until(lambda: chat.heard)
    assert world.pager.heard == []
    hang.set()
    _until(lambda: world.pager.heard)
    world.worker.stop()

    assert world.pager.reasons == chat.reasons == ["first notification"]


def test_a_worker_stops_when_told(world: World) -> None:
    world.worker.start()
    world.worker.stop()

    assert not any(thread.is_alive() for thread in world.worker._threads)


def _until(done: Any) -> None:
    deadline = time.monotonic() + 10
    while not done():
        if time.monotonic() > deadline:
            pytest.fail("nothing happened in 10 s")
        time.sleep(0.02)
