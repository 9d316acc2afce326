"""The same control plane on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, text

from alerts.read import active, history
from base import migrate
from base.clock import ManualClock
from base.db import metadata, open_engine

MINUTE = timedelta(minutes=1)


def test_an_incident_goes_the_same_way_on_both(
    any_db: Engine, clock: ManualClock, say: SimpleNamespace, world_on: Callable[..., Any]
) -> None:
    world, start = world_on(any_db), clock.now()
    world.pager.plan = [503]
    world.tick(say.ticketing(), say.paging(slo="other"))
    world.restart()
    world.tick(say.paging(), say.stale(slo="other"), after=MINUTE)
    (page, frozen) = active(any_db, clock.now())
    world.tick(say.calm(), say.calm(slo="other"), after=MINUTE)
    world.tick(say.calm(), say.calm(slo="other"), after=MINUTE)

    assert (page.slo, page.severity, frozen.slo, frozen.is_frozen) == (
        "chat-ttft",
        "page",
        "other",
        True,
    )
    assert {(body["groupLabels"]["slo"], body["status"]) for body in world.pager.heard} == {
        ("chat-ttft", "firing"),
        ("chat-ttft", "resolved"),
        ("other", "firing"),
        ("other", "resolved"),
    }
    assert len(history(any_db, start, clock.now())) == 2


@pytest.mark.binary
def test_processes_that_upgrade_together_leave_one_schema(postgres_url: str) -> None:
    engines = [open_engine(postgres_url) for _ in range(3)]
    failures: list[Exception] = []

    def upgrade(engine: Engine) -> None:
        try:
            migrate.upgrade(engine)
        except Exception as error:  # noqa: BLE001  reported below, by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=upgrade, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert failures == []
    with engines[0].begin() as connection:
        different = [d for d in migrate.differences(connection) if d[0] != "remove_table"]
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    declared = {table for table in metadata.tables if table.startswith("alert_")}
    assert [d for d in different if str(getattr(d[1], "name", "")) in declared] == []
    for engine in engines:
        engine.dispose()
