"""Incidents played on a virtual clock, from verdict to pager."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from sqlalchemy import select

from alerts import acks, silences
from alerts.acks import Ack
from alerts.matchers import Matcher
from alerts.read import active, history
from alerts.silences import Silence
from alerts.tables import outbox

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
World = Any  # see conftest.py


def silence_tenant(world: World, tenant: str, length: timedelta) -> None:
    now = world.clock.now()
    silence = Silence(
        "s1", (Matcher("tenant", tenant),), now, now + length, "sre", "known", updated_at=now
    )
    with world.db.begin() as connection:
        silences.add(connection, silence, now)


def test_an_incident_is_one_page_and_one_resolve(world: World, say: SimpleNamespace) -> None:
    world.tick(say.paging())
    for _ in range(10):
        world.tick(say.paging(), after=10 * SECOND)
    world.tick(say.calm(), after=10 * SECOND)
    world.tick(say.calm(), after=10 * SECOND)

    assert world.pager.reasons == ["first notification", "all alerts resolved"]
    assert [body["status"] for body in world.pager.heard] == ["firing", "resolved"]
    assert world.outbox() == [
        ("delivered", "first notification"),
        ("delivered", "all alerts resolved"),
    ]


def test_the_groups_of_one_slo_share_an_incident(world: World, say: SimpleNamespace) -> None:
    acme, beta = {"tenant": "acme"}, {"tenant": "beta"}
    world.tick(say.paging(group=acme), say.paging(group=beta))

    (body,) = world.pager.heard
    assert body["groupLabels"] == {"slo": "chat-ttft"}
    assert sorted(alert["labels"]["tenant"] for alert in body["alerts"]) == ["acme", "beta"]

    world.tick(say.calm(group=acme), say.paging(group=beta), after=MINUTE)
    world.tick(say.calm(group=acme), say.calm(group=beta), after=MINUTE)
    assert world.pager.reasons[1:] == ["some alerts resolved", "all alerts resolved"]
    assert [(a["labels"]["tenant"], a["status"]) for a in world.pager.heard[1]["alerts"]] == [
        ("beta", "firing"),
        ("acme", "resolved"),
    ]


def test_group_wait_collects_the_groups_of_an_incident(world: World, say: SimpleNamespace) -> None:
    world.restart(group_wait="10s")
    acme, beta = {"tenant": "acme"}, {"tenant": "beta"}

    world.tick(say.paging(group=acme), say.calm(group=beta))
    assert world.pager.heard == []
    world.tick(say.paging(group=acme), say.paging(group=beta), after=5 * SECOND)
    world.tick(say.paging(group=acme), say.paging(group=beta), after=5 * SECOND)

    assert world.pager.reasons == ["first notification"]
    assert len(world.pager.heard[0]["alerts"]) == 2


def test_an_alert_that_ends_within_group_wait_is_never_told(
    world: World, say: SimpleNamespace
) -> None:
    world.restart(group_wait="10s")

    world.tick(say.paging())
    world.tick(say.calm(), after=5 * SECOND)
    world.tick(say.calm(), after=MINUTE)

    assert world.pager.heard == []


def test_group_interval_spaces_news_but_not_a_page(world: World, say: SimpleNamespace) -> None:
    world.restart(group_interval="5m")
    acme, beta, gamma = ({"tenant": name} for name in ("acme", "beta", "gamma"))
    world.tick(say.ticketing(group=acme))
    world.tick(say.ticketing(group=acme), say.ticketing(group=beta), after=MINUTE)
    assert world.pager.reasons == ["first notification"]

    world.tick(
        say.ticketing(group=acme),
        say.ticketing(group=beta),
        say.paging(group=gamma),
        after=MINUTE,
    )

    assert world.pager.reasons == ["first notification", "new alerts added"]
    assert len(world.pager.heard[-1]["alerts"]) == 3


def test_a_louder_severity_is_told_at_once_in_the_same_incident(
    world: World, say: SimpleNamespace
) -> None:
    world.restart(group_interval="5m")
    world.tick(say.ticketing())
    world.tick(say.paging(), after=10 * SECOND)

    assert world.pager.reasons == ["first notification", "severity raised"]
    first, second = (body["alerts"][0] for body in world.pager.heard)
    assert (first["labels"]["severity"], second["labels"]["severity"]) == ("ticket", "page")
    assert first["fingerprint"] == second["fingerprint"]
    assert first["startsAt"] == second["startsAt"]


def test_a_receiver_of_pages_hears_the_end_of_the_page_not_of_the_ticket(
    world: World, say: SimpleNamespace
) -> None:
    pager = {"name": "pager", "type": "webhook", "url": "http://pager.test/h"}
    world.restart(receivers=[{**pager, "severities": ["page"]}])

    world.tick(say.ticketing())
    assert world.pager.heard == []
    world.tick(say.paging(), after=MINUTE)
    world.tick(say.ticketing(), after=MINUTE)
    world.tick(say.ticketing(), after=MINUTE)
    world.tick(say.calm(), after=MINUTE)

    assert world.pager.reasons == ["first notification", "all alerts resolved"]


def test_an_unchanged_incident_is_repeated_after_the_interval(
    world: World, say: SimpleNamespace
) -> None:
    world.tick(say.paging())
    world.tick(say.paging(), after=4 * HOUR - SECOND)
    assert world.pager.reasons == ["first notification"]

    world.tick(say.paging(), after=SECOND)

    assert world.pager.reasons == ["first notification", "repeat interval elapsed"]


def test_an_acknowledged_incident_is_not_repeated_but_its_end_is_told(
    world: World, say: SimpleNamespace
) -> None:
    world.tick(say.paging())
    (alert,) = active(world.db, world.clock.now())
    with world.db.begin() as connection:
        acks.write(connection, Ack(alert.id, "ada", "on it", world.clock.now(), None))

    world.tick(say.paging(), after=5 * HOUR)
    assert world.pager.reasons == ["first notification"]
    world.tick(say.calm(), after=MINUTE)

    assert world.pager.reasons == ["first notification", "all alerts resolved"]


def test_a_silent_source_freezes_the_alert_and_tells_nobody(
    world: World, say: SimpleNamespace
) -> None:
    world.tick(say.paging())
    assert world.tick(say.stale(), after=MINUTE) == ["froze"]
    assert world.tick(say.stale(), after=HOUR) == []

    (alert,) = active(world.db, world.clock.now())
    assert alert.is_frozen
    assert "silent since 2026-11-30T17:00:00Z" in alert.frozen_reason
    assert world.pager.reasons == ["first notification"]


def test_a_missing_verdict_freezes_the_alert(world: World, say: SimpleNamespace) -> None:
    world.tick(say.paging())

    assert world.tick(after=MINUTE) == ["froze"]
    assert world.tick(say.calm(), after=MINUTE) == ["thawed", "resolved"]


def test_an_alert_ends_with_its_slo(world: World, say: SimpleNamespace) -> None:
    world.tick(say.paging())
    world.clock.advance(MINUTE)
    world.engine.tick([], world.clock.now(), configured={"another-slo"})
    world.deliver()

    assert world.pager.reasons == ["first notification", "all alerts resolved"]


def test_no_traffic_from_a_live_source_is_calm(world: World, say: SimpleNamespace) -> None:
    world.tick(say.paging())

    assert world.tick(say.idle(), after=MINUTE) == ["resolved"]


def test_a_silenced_alert_is_not_told_until_the_silence_ends(
    world: World, say: SimpleNamespace
) -> None:
    silence_tenant(world, "acme", HOUR)

    world.tick(say.paging())
    world.tick(say.paging(), after=30 * MINUTE)
    assert world.outbox() == []
    world.tick(say.paging(), after=30 * MINUTE)

    assert world.pager.reasons == ["first notification"]


def test_an_alert_silenced_after_its_page_still_resolves_there(
    world: World, say: SimpleNamespace
) -> None:
    world.tick(say.paging())
    silence_tenant(world, "acme", 24 * HOUR)
    world.tick(say.paging(), after=5 * HOUR)
    assert world.pager.reasons == ["first notification"]
    world.tick(say.calm(), after=MINUTE)

    assert world.pager.reasons == ["first notification", "all alerts resolved"]


def test_a_message_that_waits_is_held_back_by_a_newer_silence(
    world: World, say: SimpleNamespace
) -> None:
    world.pager.plan = [429]
    world.tick(say.paging())
    silence_tenant(world, "acme", HOUR)

    report = world.deliver(after=MINUTE)

    assert (report.attempts, report.withdrawn) == (0, 1)
    assert world.outbox() == [("superseded", "first notification")]
    world.tick(say.paging(), after=HOUR)
    assert world.pager.reasons == ["first notification"]


def test_a_restart_in_the_middle_repeats_and_loses_nothing(
    world: World, say: SimpleNamespace
) -> None:
    world.restart(keep_firing_for="5m")
    world.judge(say.paging())
    world.restart()
    world.deliver()
    world.restart()
    world.tick(say.calm(), after=MINUTE)
    world.restart()
    world.tick(say.calm(), after=3 * MINUTE)
    assert world.pager.reasons == ["first notification"]
    world.restart()
    world.tick(say.calm(), after=2 * MINUTE)

    assert world.pager.reasons == ["first notification", "all alerts resolved"]


def test_an_alert_that_ends_before_anybody_was_asked_is_told_to_nobody(
    world: World, say: SimpleNamespace
) -> None:
    world.judge(say.paging())
    world.judge(say.calm(), after=SECOND)
    world.deliver()

    assert world.pager.heard == []
    assert world.outbox() == [("superseded", "first notification")]


def test_a_page_that_was_refused_for_now_and_ended_is_told_to_nobody(
    world: World, say: SimpleNamespace
) -> None:
    world.pager.plan = [429]
    world.tick(say.paging())
    world.tick(say.calm(), after=MINUTE)
    world.tick(say.calm(), after=MINUTE)

    assert world.pager.heard == []


def test_a_resolve_is_sent_when_the_trigger_timed_out(world: World, say: SimpleNamespace) -> None:
    world.pager.plan = ["heard but lost"]
    world.tick(say.paging())
    world.tick(say.calm(), after=MINUTE)

    assert [body["status"] for body in world.pager.heard] == ["firing", "resolved"]


def test_a_resolve_is_sent_when_the_worker_died_while_sending(
    world: World, say: SimpleNamespace
) -> None:
    world.judge(say.paging())
    receiver = world.receivers[0]
    world.worker._claim(receiver, world.clock.now())  # and dies
    world.tick(say.calm(), after=SECOND)
    assert world.pager.heard == []
    world.tick(say.calm(), after=2 * MINUTE)

    assert [body["status"] for body in world.pager.heard] == ["resolved"]


def test_the_payload_of_a_retry_is_frozen_and_its_signature_is_not(
    world: World, say: SimpleNamespace
) -> None:
    world.pager.plan = [503]
    world.tick(say.paging())
    world.tick(say.paging(), after=10 * SECOND)

    first, second = world.pager.requests
    assert first.content == second.content
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


def test_newer_news_replace_a_message_that_waits(world: World, say: SimpleNamespace) -> None:
    acme, beta = {"tenant": "acme"}, {"tenant": "beta"}
    world.pager.plan = [503]
    world.tick(say.paging(group=acme))
    world.tick(say.paging(group=acme), say.paging(group=beta), after=SECOND)

    assert world.outbox() == [
        ("superseded", "first notification"),
        ("delivered", "first notification"),
    ]
    assert len(world.pager.heard[0]["alerts"]) == 2


def test_what_was_done_is_said_in_the_resolve(world: World, say: SimpleNamespace) -> None:
    world.tick(say.paging())
    world.notes = ["shed 90 % of acme at the gateway", "scaled chat from 2 to 3 replicas"]
    world.tick(say.calm(), after=MINUTE)

    said = world.pager.heard[-1]["alerts"][0]["annotations"]
    assert said["actions"] == "shed 90 % of acme at the gateway; scaled chat from 2 to 3 replicas"


def test_send_resolved_off_sends_no_resolve_and_opens_again(
    world: World, say: SimpleNamespace
) -> None:
    receiver = {"name": "pager", "type": "webhook", "url": "http://pager.test/h"}
    world.restart(receivers=[{**receiver, "send_resolved": False}])
    world.tick(say.paging())
    world.tick(say.calm(), after=MINUTE)
    world.tick(say.paging(), after=MINUTE)

    assert world.pager.reasons == ["first notification", "first notification"]


def test_the_heartbeat_takes_the_same_road(world: World) -> None:
    world.restart(receivers=[], watchdog={"url": "http://dead-man.test/beat", "interval": "1m"})
    for _ in range(5):
        world.tick(after=30 * SECOND)

    assert [body["alerts"][0]["labels"]["alertname"] for body in world.pager.heard] == [
        "Watchdog"
    ] * 3


def test_a_heartbeat_that_did_not_get_through_is_replaced(world: World) -> None:
    world.restart(receivers=[], watchdog={"url": "http://dead-man.test/beat", "interval": "1m"})
    world.pager.plan = ["refused"]
    world.tick()
    world.judge(after=MINUTE)

    with world.db.begin() as connection:
        rows = connection.execute(select(outbox.c.status).order_by(outbox.c.created_at)).all()
    assert [row.status for row in rows] == ["superseded", "queued"]


def test_the_history_tells_what_was(world: World, say: SimpleNamespace) -> None:
    start = world.clock.now()
    world.tick(say.ticketing())
    world.tick(say.paging(), after=MINUTE)
    world.tick(say.calm(), after=MINUTE)
    world.tick(say.calm(), after=HOUR)

    (past,) = history(world.db, start, world.clock.now())
    assert (past.severity, past.state) == ("page", "resolved")
    assert past.resolved_at == start + 2 * MINUTE
    assert {delivery.status for delivery in past.notifications} == {"delivered"}
    assert active(world.db, world.clock.now()) == []
    assert history(world.db, start + 3 * MINUTE, world.clock.now()) == []
