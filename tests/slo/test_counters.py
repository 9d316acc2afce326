"""Judged requests as counters: monotone, whatever is corrected behind them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, generate_latest

from base.clock import ManualClock
from slo.counters import BORN_AT_ZERO, REQUESTS, RequestCounters
from slo.counts import SloCounts
from slo.evaluator import Evaluator
from slo.exclusion import Excluded
from slo.model import Slo
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.tiers import derive
from store.engine import Engine
from tests.slo.made_facts import EPOCH, alive, fact, put

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
SLO = Slo(
    name="availability",
    objective=0.9,
    window=HOUR,
    good=parse_clauses("outcome = 'good'"),
    tiers=derive(0.9, HOUR),
    group_by=("tenant",),
)


class World:
    """A store with its counts, an evaluator and the counters, under one clock."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.clock = ManualClock(EPOCH + timedelta(days=1))
        self.registry = CollectorRegistry()
        self.excluded_spans: list[Excluded] = []
        self.counts = SloCounts(engine, [SLO], SloSettings(), self.clock)
        self.counts.ensure()
        self.slo = SLO
        self._evaluator = Evaluator(engine, [SLO], SloSettings())
        self.counters = RequestCounters(engine, self, self.clock.now, self.registry)
        self.version = 1
        generate_latest(self.registry)  # somebody scrapes

    @property
    def slos(self) -> tuple[Slo, ...]:
        return (self.slo,)

    def excluded(self, slos: Sequence[Slo], since: datetime, until: datetime) -> list[Excluded]:
        return self.excluded_spans

    def requests(self, count: int, outcome: str, *, first: int, ago: timedelta = SECOND) -> None:
        self.version += 1
        at = self.clock.now() - ago
        facts = [
            fact(at, first + number, outcome=outcome, version=self.version)
            for number in range(count)
        ]
        put(self.engine, facts)
        self.counts.refresh([at.replace(second=at.second // 10 * 10)], self.version)

    def scrape(self) -> dict[str, float]:
        """Judge and read the exposition, by result."""
        now = self.clock.now()
        alive(self.engine, [now])
        self.counters(self._evaluator.evaluate(now), now)
        lines = generate_latest(self.registry).decode().splitlines()
        found = [line for line in lines if line.startswith(f"{REQUESTS}{{")]
        assert all('slo="availability"' in line and 'tenant="acme"' in line for line in found)
        return {line.split('result="')[1].split('"')[0]: float(line.split()[-1]) for line in found}


def test_a_new_group_begins_at_zero_with_all_its_results(engine: Engine) -> None:
    world = World(engine)
    world.clock.advance(MINUTE)
    world.requests(50, "bad", first=0)

    assert world.scrape() == {"good": 0, "bad": 0, "excluded": 0}
    world.clock.advance(BORN_AT_ZERO)
    assert world.scrape() == {"good": 0, "bad": 50, "excluded": 0}


def test_what_was_before_the_start_is_not_counted(engine: Engine) -> None:
    world = World(engine)
    world.requests(9, "good", first=0, ago=MINUTE)
    world.clock.advance(MINUTE)
    world.requests(2, "good", first=100)
    world.scrape()
    world.clock.advance(BORN_AT_ZERO)

    assert world.scrape() == {"good": 2, "bad": 0, "excluded": 0}


def test_a_correction_of_history_never_takes_a_counter_back(engine: Engine) -> None:
    world = World(engine)
    world.clock.advance(MINUTE)
    world.requests(10, "good", first=0)
    at = world.clock.now()
    world.scrape()
    world.clock.advance(BORN_AT_ZERO)
    before = world.scrape()

    world.requests(4, "bad", first=0, ago=world.clock.now() - at + SECOND)  # late: four were bad
    after = world.scrape()
    world.requests(6, "good", first=100)
    later = world.scrape()

    assert before == {"good": 10, "bad": 0, "excluded": 0}
    assert after == {"good": 10, "bad": 4, "excluded": 0}
    assert later == {"good": 12, "bad": 4, "excluded": 0}


def test_an_exclusion_takes_nothing_back_either(engine: Engine) -> None:
    world = World(engine)
    world.clock.advance(MINUTE)
    world.requests(5, "bad", first=0)
    world.scrape()
    world.clock.advance(BORN_AT_ZERO)
    span = (EPOCH, world.clock.now())
    world.excluded_spans = [Excluded(slo=SLO.name, spans=(span,), match=())]

    assert world.scrape() == {"good": 0, "bad": 5, "excluded": 5}
    world.excluded_spans = []
    assert world.scrape() == {"good": 0, "bad": 5, "excluded": 5}


def test_a_changed_definition_goes_on_from_where_the_counters_are(engine: Engine) -> None:
    world = World(engine)
    world.clock.advance(MINUTE)
    world.requests(10, "good", first=0)
    world.scrape()
    world.clock.advance(BORN_AT_ZERO)
    before = world.scrape()

    world.slo = replace(SLO, good=parse_clauses("outcome = 'good' and ttft_ms <= 5"))
    world.counts.replace([world.slo])
    world._evaluator.replace([world.slo])
    after = world.scrape()
    world.requests(3, "good", first=100)  # their first token is unknown: bad now
    later = world.scrape()

    assert before == after == {"good": 10, "bad": 0, "excluded": 0}
    assert later == {"good": 10, "bad": 3, "excluded": 0}


def test_what_nobody_scrapes_is_not_counted(engine: Engine) -> None:
    world = World(engine)
    world.clock.advance(HOUR)
    world.requests(5, "good", first=0)

    world.counters([], world.clock.now())

    assert world.counters._highest == {}
