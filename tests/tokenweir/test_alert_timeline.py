"""A backtest says what the running server would have: the same alerts, at the same instants."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine as Database

from alerts.engine import AlertEngine
from alerts.settings import AlertSettings
from base.clock import ManualClock
from base.db import metadata, open_engine
from slo.backtest.cells import Evaluations, Gathered, read_judged
from slo.backtest.heard import read_heard
from slo.backtest.history import History, grid_for, make_history
from slo.backtest.sweep import sweep
from slo.counts import SloCounts
from slo.evaluator import Evaluator
from slo.model import Slo
from slo.overrides import Override
from slo.parse import parse_clauses, parse_filter
from slo.settings import SloSettings
from slo.slices import make_slices
from slo.tiers import Tier, derive
from store.engine import Engine
from tests.slo.conftest import empty, open_slo_store
from tests.slo.made_facts import EPOCH, alive, fact, put
from tests.slo.made_slos import read_slos
from tokenweir.alert_timeline import AlertTimeline

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
WINDOW = timedelta(minutes=30)
START = EPOCH + timedelta(days=1)
EVER = (0, 2**63 - 1)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = open_slo_store(tmp_path_factory.mktemp("store"))
    yield engine
    engine.close()


@pytest.fixture
def engine(opened: Engine) -> Engine:
    empty(opened)
    return opened


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = open_engine(f"sqlite:///{tmp_path}/control.db")
    metadata.create_all(database)
    yield database
    database.dispose()


def documents() -> list[Slo]:
    chat = parse_filter("route = '/v1/chat/completions'")
    tiers = (
        Tier("fast", "page", 6, 60 * SECOND, 20 * SECOND, 5),
        Tier("slow", "page", 3, 6 * MINUTE, MINUTE, 5),
        Tier("trickle", "ticket", 1.5, 10 * MINUTE, MINUTE, 3),
    )
    return [
        Slo(
            "ttft", 0.9, WINDOW, parse_clauses("outcome = 'good' and ttft_ms <= 2000"), tiers,
            chat, ("tenant",),
        ),
        Slo("all", 0.95, WINDOW, parse_clauses("outcome = 'good'"), derive(0.95, WINDOW)),
        Slo(
            "short", 0.9, 5 * MINUTE, parse_clauses("ttft_ms <= 2000"),
            (Tier("only", "page", 2, MINUTE, 10 * SECOND, 2),), None, ("tenant", "model"),
            overrides=(
                Override(
                    (("tenant", ("acme",)), ("model", ("m",))), 0.98, derive(0.98, 5 * MINUTE)
                ),
                Override(
                    (("tenant", ("acme", "beta")),), 0.8,
                    (Tier("slow", "page", 1.5, 2 * MINUTE, 20 * SECOND, 3),),
                ),
            ),
        ),
    ]  # fmt: skip


def weighed_documents() -> list[Slo]:
    tiers = [
        {"name": "fast", "factor": 6, "long": "60s", "short": "20s"},
        {"name": "slow", "factor": 3, "long": "6m", "short": "1m"},
        {"name": "trickle", "severity": "ticket", "factor": 1.5, "long": "10m", "short": "1m",
         "min_bad": 3},
    ]  # fmt: skip
    alike = {"window": "30m", "objective": 90, "tiers": tiers, "group_by": ["tenant"]}
    chat = {"eligible": "route = '/v1/chat/completions'", "good": "ttft_ms <= 2000"}
    return read_slos(
        [
            alike | chat | {"name": "tokens", "weight": "completion_tokens"},
            alike | chat | {"name": "first"},
            alike | {"name": "answered"},
            alike | {"name": "sum", "composite": {"sum": {"first": 2, "answered": 1}}},
            alike
            | {"name": "whole", "group_by": [], "tiers": "derived"}
            | {"composite": {"sum": {"tokens": 1}}},
        ]
    )


def weighed(rows: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Give requests tokens, a few of them many; failures often have none."""
    dice = random.Random(seed)
    for row in rows:
        lacks = row["outcome"] == "bad" and dice.random() < 0.3
        tokens = min(int(20 * dice.paretovariate(1.5)), 400)
        row["completion_tokens"] = dice.choice([None, 0]) if lacks else tokens
    return rows


def of_slices() -> list[Slo]:
    return [
        Slo(
            "sliced", 0.9, WINDOW, parse_clauses("ttft_ms <= 2000"),
            derive(0.9, WINDOW, 3, MINUTE), None, ("tenant",), slices=make_slices(MINUTE, 90),
        ),
        Slo(
            "finely", 0.9, WINDOW, parse_clauses("outcome = 'good'"),
            derive(0.9, WINDOW, 3, 20 * SECOND), slices=make_slices(20 * SECOND, 80.5),
        ),
    ]  # fmt: skip


def played(seed: int, length: timedelta) -> list[dict[str, Any]]:
    """Busy, quiet and passing tenants; incidents; excluded requests; starts on whole seconds."""
    dice = random.Random(seed)
    rates = {"acme": 1.0, "beta": 0.3, "calm": 0.02, "": 0.05}
    incidents = [
        (tenant, begin, begin + SECOND * dice.randint(20, 500), dice.choice([0.3, 0.7, 1]))
        for tenant in rates
        for begin in (START + dice.random() * length for _ in range(2))
    ]
    gap = START + length * 0.6
    rows = []
    for tenant, rate in rates.items():
        at = START
        while (at := at + timedelta(seconds=dice.expovariate(rate))) < START + length:
            begun = at.replace(microsecond=0) if dice.random() < 0.3 else at
            if gap <= begun < gap + timedelta(minutes=7):
                continue
            failing = [p for who, a, b, p in incidents if who == tenant and a <= begun < b]
            is_bad = dice.random() < (max(failing) if failing else 0.04)
            rows.append(
                fact(
                    begun,
                    len(rows),
                    tenant=tenant,
                    model=dice.choice(["m", "n"]),
                    outcome=outcome_of(is_bad, dice),
                    ttft_ms=dice.choice([None, 5000.0]) if is_bad else 100.0,
                    route="/v1/embeddings" if dice.random() < 0.1 else "/v1/chat/completions",
                )
            )
    return rows


def outcome_of(is_bad: bool, dice: random.Random) -> str:
    if is_bad and dice.random() < 0.7:
        return "bad"
    return "excluded" if dice.random() < 0.05 else "good"


Entry = tuple[str, tuple[tuple[str, str], ...], str, str, datetime]


def live(
    engine: Engine, db: Database, slos: Sequence[Slo], instants: Sequence[datetime],
    settings: SloSettings, alert_settings: AlertSettings,
) -> list[Entry]:  # fmt: skip
    """Run the real evaluator, without what it explains, and the real alert engine."""
    clock = ManualClock(instants[0])
    SloCounts(engine, slos, settings, clock).ensure()
    evaluator = Evaluator(engine, slos, settings)
    alerts = AlertEngine(db, (), alert_settings, clock)
    found: list[Entry] = []
    for now in instants:
        clock.advance(now - clock.now())
        for edge in alerts.tick(evaluator.what_if(now, ()), now, {each.name for each in slos}):
            if edge.slo and edge.severity:
                group = tuple(sorted(edge.group.items()))
                found.append((edge.slo, group, str(edge.turn), edge.severity, edge.at))
    return sorted(found)


def backtest(
    slos: Sequence[Slo], history: History, settings: SloSettings, alert_settings: AlertSettings
) -> list[Entry]:
    found: list[Entry] = []
    for each in slos:
        for group in history.groups(each):
            own, cells = each.for_group(group), history.of(each, group)
            assert cells is not None
            silence = history.silence(own, settings)
            changes = sweep(own, cells, history.grid, history.span, silence)
            members = tuple(sorted(zip(each.group_by, group, strict=True)))
            for alert in AlertTimeline(own, history, alert_settings).play(group, changes):
                found += [
                    (each.name, members, str(turn.turn), turn.severity,
                     history.grid.at(turn.evaluation))
                    for turn in alert.turns
                ]  # fmt: skip
    return sorted(found)


def read_history(engine: Engine, slos: Sequence[Slo], every: timedelta, heard: Any) -> History:
    found = Gathered()
    read_judged(engine, slos, [EVER], found)
    history = make_history(found, grid_for(slos, every), heard=heard)
    assert history is not None
    return history


def instants_of(history: History) -> list[datetime]:
    span: Evaluations = history.span
    return [history.grid.at(each) for each in range(span.first, span.end)]


TOLD = {"fired", "raised", "lowered", "clearing", "returned", "resolved", "froze", "thawed"}
"""Not what happens before an alert fires: nobody hears of that."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "every", "sources"),
    [
        pytest.param(1, 30, "alive", marks=pytest.mark.deep),
        (3, 7, "alive"),
        pytest.param(4, 30, "requests", marks=pytest.mark.deep),
        pytest.param(5, 30, "gone", marks=pytest.mark.deep),
    ],
)
def test_the_alerts_of_a_backtest_are_those_of_the_running_server(
    engine: Engine, db: Database, seed: int, every: int, sources: str
) -> None:
    expected, got = both(
        engine, db, documents(), played(seed, 60 * SECOND * every), SECOND * every, sources
    )

    assert len(fired(expected)) > 3
    assert [each for each in expected if each[2] in TOLD] == got


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "every", "sources"), [(5, 30, "gone")])
def test_a_backtest_judges_weights_and_composites_as_the_server_does(
    engine: Engine, db: Database, seed: int, every: int, sources: str
) -> None:
    rows = weighed(played(seed, 45 * SECOND * every), seed)

    expected, got = both(engine, db, weighed_documents(), rows, SECOND * every, sources)

    assert {"tokens", "sum"} <= {each[0] for each in fired(expected)}
    assert [each for each in expected if each[2] in TOLD] == got


@pytest.mark.slow
def test_a_backtest_judges_slices_as_the_server_does(engine: Engine, db: Database) -> None:
    every = timedelta(seconds=25)

    expected, got = both(engine, db, of_slices(), played(6, 60 * every), every, "gone")

    assert {"sliced", "finely"} == {each[0] for each in fired(expected)}
    assert [each for each in expected if each[2] in TOLD] == got


def fired(found: Sequence[Entry]) -> set[Any]:
    return {(each[0], each[1], each[4]) for each in found if each[2] == "fired"}


def both(
    engine: Engine, db: Database, slos: Sequence[Slo], rows: list[dict[str, Any]],
    every: timedelta, sources: str,
) -> tuple[list[Entry], list[Entry]]:  # fmt: skip
    """Play a history through the running parts and through a backtest."""
    length = 45 * every
    put(engine, rows)
    heard = {
        "alive": [START + 20 * SECOND * n for n in range(int(length / (20 * SECOND)) + 10)],
        "requests": [datetime.fromtimestamp(row["start"] // 1000 / 1e6, UTC) for row in rows],
        "gone": [START + 20 * SECOND * n for n in range(100) if n not in range(45, 60)],
    }[sources]
    alive(engine, [START - MINUTE, *heard])
    settings = SloSettings(evaluate_every=every)
    alert_settings = (
        AlertSettings(pending_for=45 * SECOND, keep_firing_for=2 * MINUTE)
        if every < 10 * SECOND
        else AlertSettings()
    )
    told = None if sources == "alive" else read_heard(engine)
    history = read_history(engine, slos, every, told)
    expected = live(engine, db, slos, instants_of(history), settings, alert_settings)
    return expected, backtest(slos, history, settings, alert_settings)
