"""The outbox under several workers at once, on both databases."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.exc import IntegrityError

from alerts import outbox
from alerts import tables as t
from alerts.decide import Reason
from alerts.model import Severity
from alerts.outbox import Message

NOW = datetime(2026, 11, 30, 17, 0, tzinfo=UTC)
LEASE = timedelta(seconds=60)


def message(number: int, *, receiver: str = "pager", group: str | None = None) -> Message:
    return Message(
        id=f"{number:026d}",
        receiver=receiver,
        group_key=group or f"group-{number}",
        reason=Reason.FIRST,
        firing={f"episode-{number}": Severity.PAGE},
        resolved=(),
        body=b"{}",
    )


def test_every_message_is_claimed_by_exactly_one_worker(any_db: Engine) -> None:
    count, workers = 120, 4
    with any_db.begin() as connection:
        for number in range(count):
            outbox.put(connection, message(number), NOW)
    claimed: Counter[str] = Counter()
    lock = threading.Lock()

    def work(name: str) -> None:
        while True:
            with any_db.begin() as connection:
                claim = outbox.claim(connection, "pager", NOW, name, LEASE)
            if claim is None:
                return
            with any_db.begin() as connection:
                assert outbox.finish(
                    connection, claim, "delivered", NOW, reason="HTTP 200", code=200
                )
            with lock:
                claimed[claim.message.id] += 1

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(claimed) == count
    assert set(claimed.values()) == {1}


def test_the_database_refuses_a_second_message_in_the_air(any_db: Engine) -> None:
    with any_db.begin() as connection:
        outbox.put(connection, message(1, group="g"), NOW)

    with pytest.raises(IntegrityError), any_db.begin() as connection:
        outbox.put(connection, message(2, group="g"), NOW)

    with any_db.begin() as connection:
        outbox.supersede(connection, message(1).id, "newer news", NOW)
        outbox.put(connection, message(2, group="g"), NOW)
        outbox.put(connection, message(3, group="g", receiver="other"), NOW)


def test_a_lease_that_ran_out_is_taken_over_and_the_first_worker_loses_its_say(
    any_db: Engine,
) -> None:
    with any_db.begin() as connection:
        outbox.put(connection, message(1), NOW)
        first = outbox.claim(connection, "pager", NOW, "w1", LEASE)
    with any_db.begin() as connection:
        assert outbox.claim(connection, "pager", NOW, "w2", LEASE) is None
        second = outbox.claim(connection, "pager", NOW + LEASE, "w2", LEASE)

    assert first is not None
    assert second is not None
    assert (second.attempt, second.maybe_heard) == (2, True)
    with any_db.begin() as connection:
        assert not outbox.finish(connection, first, "delivered", NOW, reason="", code=200)
        assert outbox.finish(connection, second, "delivered", NOW, reason="", code=200)


def test_a_postponed_message_waits_for_its_time(any_db: Engine) -> None:
    later = NOW + timedelta(seconds=30)
    with any_db.begin() as connection:
        outbox.put(connection, message(1), NOW)
        claim = outbox.claim(connection, "pager", NOW, "w1", LEASE)
        assert claim is not None
        outbox.postpone(connection, claim, later, reason="HTTP 503", code=503, maybe_heard=True)

    with any_db.begin() as connection:
        assert not outbox.has_due(connection, "pager", NOW)
        assert outbox.claim(connection, "pager", NOW, "w1", LEASE) is None
        again = outbox.claim(connection, "pager", later, "w1", LEASE)
    assert again is not None
    assert (again.attempt, again.maybe_heard) == (2, True)


def test_settled_messages_are_pruned_heartbeats_first(any_db: Engine) -> None:
    beat = Message("b" * 26, "watchdog", "beat", Reason.HEARTBEAT, {}, (), b"{}")
    with any_db.begin() as connection:
        for one in (message(1), message(2), beat):
            outbox.put(connection, one, NOW)
        for receiver in ("pager", "watchdog"):
            claim = outbox.claim(connection, receiver, NOW, "w", LEASE)
            assert claim is not None
            outbox.finish(connection, claim, "delivered", NOW, reason="", code=200)

    with any_db.begin() as connection:
        assert outbox.prune(connection, NOW, NOW + timedelta(seconds=1)) == 1
        assert outbox.prune(connection, NOW + timedelta(seconds=1), NOW) == 1
        left = connection.execute(select(t.outbox.c.status)).scalars().all()
    assert left == ["queued"]
