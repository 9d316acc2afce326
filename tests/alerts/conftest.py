from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, select
from sqlalchemy.exc import OperationalError

from alerts.delivery import DeliveryWorker, Report
from alerts.engine import AlertEngine
from alerts.receivers import open_receivers
from alerts.settings import AlertSettings
from alerts.tables import outbox
from base.clock import ManualClock
from base.db import metadata, open_engine
from base.outbound import http_client
from slo.verdict import State, TierVerdict, Verdict

START = datetime(2026, 11, 30, 17, 0, tzinfo=UTC)
POSTGRES = Path("/usr/lib/postgresql/15/bin")
SECRET = "whsec_dG9rZW53ZWlyLXRlc3Qtc2VjcmV0LTAxMjM0NTY3"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/control.db")
    metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def settings() -> AlertSettings:
    return make_settings()


def make_settings(**changes: Any) -> AlertSettings:
    """One webhook, nothing that waits: each test adds the delays it is about."""
    values: dict[str, Any] = {
        "receivers": [
            {"name": "pager", "type": "webhook", "url": "http://pager.test/hook", "secret": SECRET}
        ],
        "external_url": "https://slo.example",
        "group_wait": "0s",
        "group_interval": "0s",
        "keep_firing_for": "0s",
    }
    return AlertSettings.model_validate(values | changes)


def tier(
    severity: str = "page", *, burning: bool = True, burn: float | None = 20.0, short: str = "5m"
) -> TierVerdict:
    minutes = {"5m": 5, "2h": 120}[short]
    return TierVerdict(
        name="fast" if severity == "page" else "drift",
        severity=severity,  # type: ignore[arg-type]
        factor=14.4 if severity == "page" else 3.0,
        long=timedelta(minutes=minutes * 12),
        short=timedelta(minutes=minutes),
        long_burn=burn,
        short_burn=burn,
        burning=burning,
    )


def verdict(
    state: State = State.OK,
    *,
    slo: str = "chat-ttft",
    group: Mapping[str, str] | None = None,
    tiers: Sequence[TierVerdict] = (),
    at: datetime = START,
) -> Verdict:
    return Verdict(
        slo=slo,
        group=group if group is not None else {"tenant": "acme"},
        objective=0.99,
        window=timedelta(days=30),
        good=9_600,
        bad=60,
        excluded=3,
        sli=0.99379,
        budget_remaining=0.38,
        burn={"5m": 21.0, "1h": 20.0},
        coverage=1.0,
        watermark=at,
        state=state,
        tiers=tuple(tiers),
        bad_reasons={"slow_ttft": 48, "timeout": 9, "capacity": 3},
        at=at,
        expires_in=timedelta(hours=13, minutes=41),
        labels={"team": "inference"},
        annotations={"runbook": "https://runbooks.example/chat"},
    )


def paging(**changes: Any) -> Verdict:
    return verdict(State.BURNING, tiers=[tier("page"), tier("ticket", short="2h")], **changes)


def ticketing(**changes: Any) -> Verdict:
    tiers = [tier("page", burning=False, burn=2.0), tier("ticket", short="2h", burn=4.0)]
    return verdict(State.BURNING, tiers=tiers, **changes)


def calm(**changes: Any) -> Verdict:
    tiers = [tier("page", burning=False, burn=0.4), tier("ticket", burning=False, burn=0.4)]
    return verdict(State.OK, tiers=tiers, **changes)


def stale(**changes: Any) -> Verdict:
    return verdict(State.STALE, **changes)


@dataclass
class Pager:
    """A receiver that verifies, removes duplicates by webhook-id and keeps its own incidents.

    `plan` holds what the next requests meet: a status, or an exception before or after hearing.
    """

    plan: list[int | str] = field(default_factory=list)
    default: int | str = 200
    requests: list[httpx.Request] = field(default_factory=list)
    fates: list[int | str] = field(default_factory=list)
    heard: list[dict[str, Any]] = field(default_factory=list)
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer_text: str = ""
    _ids: set[str] = field(default_factory=set)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        fate = self.plan.pop(0) if self.plan else self.default
        self.fates.append(fate)
        if fate == "refused":
            raise httpx.ConnectError("[Errno 111] Connection refused", request=request)
        if fate == "lost":
            raise httpx.ReadTimeout("timed out", request=request)
        if fate == "heard but lost":
            self._hear(request)
            raise httpx.ReadTimeout("timed out", request=request)
        assert isinstance(fate, int)
        if 200 <= fate < 300:
            self._hear(request)
        return httpx.Response(fate, headers=self.answer_headers, text=self.answer_text)

    def _hear(self, request: httpx.Request) -> None:
        if request.headers["webhook-id"] not in self._ids:
            self._ids.add(request.headers["webhook-id"])
            self.heard.append(json.loads(request.content))

    @property
    def reasons(self) -> list[str]:
        return [body["notification_reason"] for body in self.heard]


class World:
    """A control plane in a box: clock, database, one engine, one worker, one pager."""

    def __init__(self, db: Engine, clock: ManualClock, settings: AlertSettings) -> None:
        self.db = db
        self.clock = clock
        self.pager = Pager()
        self.pagers: dict[str, Pager] = {}
        self.notes: list[str] = []
        self.use(settings)

    def use(self, settings: AlertSettings) -> None:
        """Start (again) with these settings: what is in memory is lost."""
        self.settings = settings
        self.receivers = open_receivers(settings)
        self.engine = AlertEngine(
            self.db, self.receivers, settings, self.clock, lambda _c, _s, _g: self.notes
        )
        http = http_client(transport=httpx.MockTransport(self._route))
        self.worker = DeliveryWorker(self.db, self.receivers, self.clock, http, jitter=lambda: 1.0)

    def restart(self, **changes: Any) -> None:
        self.use(make_settings(**changes) if changes else self.settings)

    def tick(self, *verdicts: Verdict, after: timedelta | None = None) -> list[str]:
        """Let time pass, judge, deliver; answers the turns taken."""
        turns = self.judge(*verdicts, after=after)
        self.deliver()
        return turns

    def judge(self, *verdicts: Verdict, after: timedelta | None = None) -> list[str]:
        if after is not None:
            self.clock.advance(after)
        return [str(edge.turn) for edge in self.engine.tick(verdicts, self.clock.now())]

    def deliver(self, after: timedelta | None = None) -> Report:
        if after is not None:
            self.clock.advance(after)
        return self.worker.run_once(self.clock.now())

    def outbox(self) -> list[tuple[str, str]]:
        """List (status, reason) of every message in the order they were made."""
        with self.db.begin() as connection:
            rows = connection.execute(
                select(outbox.c.status, outbox.c.reason).order_by(outbox.c.created_at, outbox.c.id)
            )
            return [(row.status, row.reason) for row in rows]

    def _route(self, request: httpx.Request) -> httpx.Response:
        return self.pagers.get(request.url.host, self.pager)(request)


@pytest.fixture
def world(db: Engine, clock: ManualClock, settings: AlertSettings) -> World:
    return World(db, clock, settings)


@pytest.fixture
def world_on(clock: ManualClock, settings: AlertSettings) -> Callable[[Engine], World]:
    return lambda engine: World(engine, clock, settings)


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    """Make worlds on databases of their own in memory, for tests that need many."""
    engines: list[Engine] = []

    def make(**changes: Any) -> World:
        engine = open_engine("sqlite://")
        metadata.create_all(engine)
        engines.append(engine)
        return World(engine, ManualClock(START), make_settings(**changes))

    yield make
    for engine in engines:
        engine.dispose()


@pytest.fixture
def say() -> SimpleNamespace:
    """Make verdicts: say.paging(), say.ticketing(), say.calm(), say.stale(), say.nothing()."""
    return SimpleNamespace(
        paging=paging,
        ticketing=ticketing,
        calm=calm,
        stale=stale,
        verdict=verdict,
        tier=tier,
        settings=make_settings,
        idle=lambda **changes: verdict(State.NO_TRAFFIC, **changes),
    )


@pytest.fixture(scope="module")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL of its own, on a socket in a directory of its own."""
    if not (POSTGRES / "initdb").exists() or os.getuid() != 0:
        pytest.skip("needs Debian's postgresql-15 and root to become the user postgres")
    home = Path("/tmp") / f"tokenweir-pg-{os.getpid()}"  # noqa: S108  a socket path must be short
    home.mkdir()
    shutil.chown(home, "postgres")
    as_postgres = ["runuser", "-u", "postgres", "--"]
    init = [POSTGRES / "initdb", "-D", home / "data", "-A", "trust", "--no-sync", "-U", "postgres"]
    subprocess.run([*as_postgres, *init], check=True, capture_output=True)
    options = ["-c", "listen_addresses=", "-c", "fsync=off"]
    server = subprocess.Popen(
        [*as_postgres, POSTGRES / "postgres", "-D", home / "data", "-k", home, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"postgresql+psycopg://postgres@/postgres?host={home}"
    _wait_for(url)
    yield url
    server.terminate()
    server.wait(20)
    shutil.rmtree(home)


def _wait_for(url: str) -> None:
    engine = open_engine(url)
    deadline = time.monotonic() + 20
    while True:
        try:
            engine.connect().close()
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            engine.dispose()
            return


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.binary)])
def any_db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "sqlite":
        engine = open_engine(f"sqlite:///{tmp_path}/control.db")
    else:
        engine = open_engine(request.getfixturevalue("postgres_url"))
    metadata.create_all(engine)
    yield engine
    metadata.drop_all(engine)
    engine.dispose()
