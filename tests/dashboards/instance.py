"""A whole instance on seeded data: pages and API on one application, as the program mounts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import intake_seeding
import seeding
import sqlalchemy
from a2wsgi import WSGIMiddleware
from fastapi import FastAPI

from actuators import register
from actuators.lease import Expect, HistoryStep, Kind, Lease, LeaseState, OnExpiry
from alerts.engine import AlertEngine
from alerts.settings import AlertSettings
from base.clock import Clock
from base.db import metadata, open_engine, transaction
from cost import api as cost_api
from cost.pricefile import load_price_book
from dashboards import api
from dashboards.app import create_app
from dashboards.deps import Deps
from slo import documents, exclusion_book, version_book
from slo import schema as slo_schema
from slo.calendar import read_calendar
from slo.counts import SloCounts
from slo.evaluator import Evaluator
from slo.exclusion import Exclusion
from slo.exclusion_book import ExclusionsInForce
from slo.model import Slo
from slo.settings import SloSettings
from store import open as store
from store import schema
from store.engine import Engine

EXAMPLES = Path(__file__).parents[2] / "examples"


def open_instance(
    folder: Path, clock: Clock, *, is_new: bool = True, requests: int = 70_000
) -> tuple[FastAPI, Deps, Engine]:
    """Open the stores in a folder and put the pages on an app.

    New stores are filled with `requests` requests; with none they stay empty.
    """
    engine = store.open_engine(f"chdb://{folder / 'store'}")
    db = open_engine(f"sqlite:///{folder / 'control.db'}")
    slos = [_with_months(each) for each in documents.load([EXAMPLES / "slo" / "production.yaml"])]
    now = clock.now()
    schema.create(engine)
    slo_schema.create(engine)
    metadata.create_all(db)
    in_force = ExclusionsInForce(db)
    evaluator = Evaluator(engine, slos, SloSettings(), in_force)
    if is_new and requests:
        seeding.seed(engine, now, requests=requests)
        intake_seeding.seed_intake(engine, now)
        SloCounts(engine, slos, SloSettings(), clock).ensure()
        _record(db, slos, now)
        _fire(AlertEngine(db, [], AlertSettings(), clock), evaluator, now)
        with transaction(db) as connection:
            for lease in leases(now):
                register.add(connection, lease)
    judged = evaluator.evaluate(now)
    deps = Deps(
        engine=engine,
        db=db,
        clock=clock,
        prices=load_price_book(EXAMPLES / "prices" / "demo.yaml"),
        verdicts=lambda: judged,
        slos=lambda: slos,
        exclusions=in_force,
        intake=intake_seeding.ports(now) if requests else None,
    )
    return mount(deps), deps, engine


def mount(deps: Deps) -> FastAPI:
    app = FastAPI()
    app.include_router(api.router(deps.engine, deps.prices))
    app.include_router(cost_api.router(deps.engine, deps.prices, deps.clock))
    pages = create_app(deps, first_view_wait_s=60)  # however busy the machine of the tests is
    app.mount("/", WSGIMiddleware(pages.server))  # type: ignore[arg-type]
    return app


def leases(now: datetime) -> list[Lease]:
    """One that helped, one still to be proven, one long over."""
    return [
        _lease(
            now - timedelta(minutes=15),
            id="01J1",
            kind=Kind.SHED,
            target="gateway/demo",
            subject="tenant=acme",
            change={"fraction": 0.75},
            reason="acme sends 8.9 times its usual prompt tokens; queueing is 91 % of TTFT",
            state=LeaseState.VERIFIED,
            expires_at=now + timedelta(minutes=5),
            after=912.0,
        ),
        _lease(
            now - timedelta(minutes=9),
            id="01J2",
            kind=Kind.SCALE,
            target="fleet/demo",
            subject="",
            change={"desired": 3},
            revert_to={"desired": 2},
            reason="prefill load is 1.4 times the capacity at the present mix",
            state=LeaseState.APPLIED,
            expires_at=now + timedelta(minutes=11),
        ),
        _lease(
            now - timedelta(hours=8, minutes=45),
            id="01J0",
            kind=Kind.CAP,
            target="gateway/demo",
            subject="tenant=globex",
            change={"max_concurrency": 8},
            reason="a retry storm after upstream errors",
            state=LeaseState.REVERTED,
            expires_at=now - timedelta(hours=8),
            closed_at=now - timedelta(hours=7, minutes=50),
            history=(HistoryStep(now - timedelta(hours=7), "reverted", "calm for 10 min"),),
        ),
    ]


def _with_months(slo: Slo) -> Slo:
    months = (read_calendar("month", "Europe/Berlin"),)
    return replace(slo, calendars=months) if slo.name == "chat-e2e" else slo


def _record(db: sqlalchemy.Engine, slos: Sequence[Slo], now: datetime) -> None:
    """One exclusion in force each Sunday, one taken back, and documents that changed."""
    sunday = datetime(2026, 11, 1, 1, tzinfo=UTC)
    weekly = Exclusion(
        "01E1", sunday, sunday + timedelta(hours=1), "weekly upgrade", "ada", sunday,
        slos=("chat-e2e",), rrule="FREQ=WEEKLY;BYDAY=SU", zone="Europe/Berlin",
    )  # fmt: skip
    tested = replace(weekly, id="01E2", reason="load test", rrule="", created_by="grace")
    day = timedelta(days=1)
    before = [replace(each, objective=0.98) if each.calendars else each for each in slos]
    with transaction(db) as connection:
        for each, by in ((weekly, "grace"), (tested, "ada")):
            exclusion_book.propose(connection, each)
            approved = exclusion_book.approve(connection, each, by, sunday)
        exclusion_book.revert(connection, approved, "edsger", now - day)
        gone = replace(slos[0], name="chat-old")
        version_book.record(connection, [*before, gone], "ada", now - 40 * day)
        version_book.record(connection, slos, "grace", now - 3 * day)


def _lease(at: datetime, **fields: Any) -> Lease:
    given: dict[str, Any] = {
        "cause": "prefill_flood",
        "evidence": {},
        "revert_to": {},
        "expect": Expect("ttft_p95_ms", "down", 0.5, timedelta(minutes=3), 4130.0, 1500.0),
        "on_expiry": OnExpiry.REVERT,
        "slo": "chat-ttft",
        "episode": None,
        "created_at": at,
        "verify_by": at + timedelta(minutes=3),
        "changed_at": at,
        "history": (HistoryStep(at, "applied", "the target confirmed it"),),
    }
    return Lease(**{**given, **fields})


def _fire(engine: AlertEngine, evaluator: Evaluator, now: datetime) -> None:
    for minutes in (600, 20, 16, 12, 8, 4, 1):
        at = now - timedelta(minutes=minutes)
        engine.tick(evaluator.evaluate(at), at)
