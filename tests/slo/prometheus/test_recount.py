"""Windows against an independent recount, over generated histories of counters."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from base.clock import ManualClock
from slo.budget import Count
from slo.evaluator import Evaluator
from slo.prometheus.client import PrometheusClient
from slo.prometheus.poller import Poller
from slo.prometheus.reading import Memory, Reader
from slo.prometheus.rows import CountWriter
from slo.settings import PrometheusSettings, SloSettings
from slo.slices import make_slices
from slo.window_counts import count_windows
from store.engine import Engine
from tests.slo.conftest import empty
from tests.slo.prometheus.made import HOUR, MINUTE, NOON, SECOND, T0, counters, make_slo
from tests.slo.prometheus.tsdb import Tsdb, Web

SLO = make_slo(counters(), group_by=("handler",), window=timedelta(hours=3))
MAIN = PrometheusSettings(url="http://prometheus.example:9090")
SETTINGS = SloSettings(prometheus={"main": MAIN})
BLOCK = 10 * MINUTE
START = T0 - 4 * HOUR

History = dict[tuple[str, str, str], dict[int, float]]
"""(instance, handler, code) -> samples."""


def history(seed: int, end: int = T0) -> History:
    """Simulate scraped processes that restart, fall silent and meet new handlers and failures."""
    rng = random.Random(seed)
    found: History = defaultdict(dict)
    for instance in "ab"[: rng.randint(1, 2)]:
        step = rng.choice([15, 30, 60]) * SECOND
        at = START + rng.randrange(step)
        counts: dict[tuple[str, str], float] = defaultdict(float)
        if rng.random() < 0.5:
            counts["/a", "200"] = rng.choice([3, 10**9])
        while at < end:
            fate = rng.random()
            if fate < 0.01:
                counts.clear()
            elif fate < 0.02:
                at += rng.choice([2 * MINUTE, 20 * MINUTE, 90 * MINUTE])
            for handler in "ab"[: rng.randint(1, 2)]:
                for code in ("200", "500") if rng.random() < 0.2 else ("200",):
                    counts[f"/{handler}", code] += rng.choice([0, 1, 7, 50])
            for (handler, code), value in counts.items():
                if rng.random() > 0.01:  # a series may miss a scrape
                    found[instance, handler, code][at] = value
            at += step + rng.randint(-50, 50)
    return found


def recount(samples: History, since: int, until: int) -> dict[str, tuple[int, int]]:
    """Count good and bad per handler in [since, until), straight from the definition."""
    scrapes: dict[str, set[int]] = defaultdict(set)
    for (instance, _, _), series in samples.items():
        scrapes[instance] |= series.keys()
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (instance, handler, code), series in samples.items():
        before: tuple[int, float] | None = None
        for at in sorted(series):
            value = series[at]
            if before is None:
                known = any(at - HOUR <= other < at for other in scrapes[instance])
                rise = value if known else 0
            elif at - before[0] > HOUR:
                rise = 0
            else:
                rise = value - before[1] if value >= before[1] else value
            if since <= at < until:
                found[handler][code == "500"] += int(rise)
            before = at, value
    return {handler: (good, bad) for handler, (good, bad) in found.items() if good or bad}


def put(tsdb: Tsdb, samples: History, *, until: int | None = None) -> None:
    for (instance, handler, code), series in samples.items():
        labels = {"job": "api", "instance": instance, "handler": handler, "code": code}
        kept = {at: value for at, value in series.items() if until is None or at < until}
        if kept:
            tsdb.put("requests_total", labels, kept)


@given(seed=st.integers(0, 10**9), cuts=st.sets(st.integers(1, 23), max_size=6))
@example(seed=0, cuts=set())
@settings(max_examples=10, deadline=None)
def test_any_window_equals_a_recount_however_it_is_read_in_pieces(
    seed: int, cuts: set[int]
) -> None:
    samples, tsdb = history(seed), Tsdb()
    put(tsdb, samples)
    reader, memory = Reader(SLO, tsdb), Memory(START)
    judged = {}
    edges = [START, *(START + cut * BLOCK for cut in sorted(cuts)), T0]
    for start, end in pairwise(edges):
        reading = reader.read(memory, start, end, end)
        judged |= reading.judged
        memory = reading.memory

    rng = random.Random(seed)
    for _ in range(5):
        first, last = sorted(START + rng.randrange(4 * HOUR) // 10_000 * 10_000 for _ in range(2))
        found: dict[str, tuple[int, int]] = {}
        for ((handler,), at), each in judged.items():
            if first <= at * 1000 < last:
                good, bad = found.get(handler, (0, 0))
                found[handler] = good + each.good, bad + each.bad
        assert found == recount(samples, first, last)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=10, deadline=None)
def test_what_is_remembered_is_what_would_be_learnt_anew(seed: int) -> None:
    samples, tsdb = history(seed), Tsdb()
    put(tsdb, samples)
    reader = Reader(SLO, tsdb)
    middle = START + 2 * HOUR

    carried = reader.read(Memory(START), START, middle, middle).memory
    learnt = reader.remember(middle)

    one, other = (reader.read(each, middle, T0, T0).judged for each in (carried, learnt))
    assert one == other


@given(seed=st.integers(0, 10**9))
@example(seed=1_328_665)  # a failure that appears after the last poll
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_poller_ends_with_the_recount_whatever_comes_late(engine: Engine, seed: int) -> None:
    empty(engine)
    rng = random.Random(seed)
    samples, tsdb = history(seed, T0 + 30 * MINUTE), Tsdb()
    clock = ManualClock(NOON)
    client = PrometheusClient("main", MAIN, Web(tsdb).client(), clock)
    writer = CountWriter(engine, SETTINGS, clock)
    poller = Poller("main", [(SLO, Reader(SLO, client))], writer, MAIN, clock)
    late = {
        (key, at): rng.choice([0, 0, 0, 60, 240]) * SECOND
        for key, series in samples.items()
        for at in series
    }
    put(tsdb, samples, until=T0)
    seen = samples

    while clock.now() < NOON + timedelta(minutes=36):
        now = round(clock.now().timestamp() * 1000)
        seen = {
            key: {at: value for at, value in series.items() if at + late[key, at] <= now}
            for key, series in samples.items()
        }
        put(tsdb, seen)
        wait = poller.step()
        clock.advance(timedelta(seconds=max(wait, 0.1) if wait < 1 else 60))
        if rng.random() < 0.05:
            poller = Poller("main", [(SLO, Reader(SLO, client))], writer, MAIN, clock)

    now = datetime.fromtimestamp(round(clock.now().timestamp()), UTC)
    verdicts = Evaluator(engine, [SLO], SETTINGS).evaluate(now)
    end = round(now.timestamp() * 1000)
    counted = {
        each.group["handler"]: (each.good, each.bad)
        for each in verdicts
        if each.group and each.total
    }
    # What appeared since the last poll is not known yet; all that came before it is.
    assert counted == recount(seen, _edge(end - 3 * HOUR), end + 1)


@pytest.mark.parametrize("seconds", [10, 60, 300, 3600])
def test_slices_of_events_equal_a_recount(engine: Engine, seconds: int) -> None:
    slo = replace(SLO, slices=make_slices(timedelta(seconds=seconds), 97))
    samples, tsdb = history(7), Tsdb()
    put(tsdb, samples)
    clock = ManualClock(NOON)
    client = PrometheusClient("main", MAIN, Web(tsdb).client(), clock)
    writer = CountWriter(engine, SETTINGS, clock)
    poller = Poller("main", [(slo, Reader(slo, client))], writer, MAIN, clock)
    for _ in range(6):
        clock.advance(timedelta(seconds=max(poller.step(), 0.1)))

    for before in (timedelta(seconds=3), timedelta(minutes=31)):
        now, window = NOON - before, timedelta(hours=1)
        found = count_windows(engine, [slo], [window], now)[slo.name]

        end = round(now.timestamp()) // seconds * seconds
        expected: dict[str, Count] = defaultdict(Count)
        for start in range(end - 3600, end, seconds):
            counted = recount(samples, start * 1000, (start + seconds) * 1000)
            for handler, (good, bad) in counted.items():
                expected[handler] += Count(1, 0) if good * 100 >= 97 * (good + bad) else Count(0, 1)
        assert {each.group[0]: each.windows[window] for each in found} == expected
    verdicts = Evaluator(engine, [slo], SETTINGS).evaluate(NOON)
    assert {each.unit for each in verdicts} == {"slices"}
    assert all(each.total and each.coverage for each in verdicts)


def _edge(at: int) -> int:
    """Return the first whole bucket after an instant: the window is open at its start."""
    return at // 10_000 * 10_000 + 10_000


@pytest.mark.parametrize("pace", [1, 7])
def test_a_counter_that_never_restarts_counts_every_event_once(pace: int) -> None:
    tsdb = Tsdb()
    samples = {T0 + n * 15_000: 5.0 + n * pace for n in range(240)}
    tsdb.put("requests_total", {"job": "a", "instance": "b", "code": "200"}, samples)
    reader = Reader(make_slo(counters()), tsdb)

    reading = reader.read(Memory(T0), T0, T0 + HOUR, T0 + HOUR)

    assert sum(each.good for each in reading.judged.values()) == 239 * pace
