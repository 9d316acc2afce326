import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import slo.schema
from base.clock import ManualClock
from slo.counts import SloCounts
from slo.model import Slo
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.window_counts import count_windows
from store.engine import Engine
from tests.slo.conftest import empty
from tests.slo.made_facts import EPOCH, NS, dirty, fact, nanoseconds, put

DAY, REACH = timedelta(days=1), timedelta(days=3)
SLO = Slo(
    name="availability",
    objective=0.9,
    window=30 * DAY,
    good=parse_clauses("outcome = 'good'"),
    tiers=(),
    group_by=("tenant",),
)


def runs(engine: Engine, now: datetime, reach: timedelta = REACH) -> dict[str, int]:
    found = count_windows(engine, [SLO], [timedelta(hours=1), SLO.window], now, reach=reach)
    return {each.group[0]: each.run for each in found[SLO.name]}


def expected(
    facts: Sequence[dict[str, Any]], now: datetime, reach: timedelta = REACH
) -> dict[str, int]:
    """Go through each tenant's requests in order of their starts."""
    end = nanoseconds(now)
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in facts:
        if end - nanoseconds(EPOCH + SLO.window) + nanoseconds(EPOCH) < each["start"] <= end:
            groups[each["tenant"]].append(each)
    since = nanoseconds(now - reach)
    out = {}
    for tenant, found in groups.items():
        good = [each["start"] for each in found if each["outcome"] == "good"]
        last = max([since, *good])
        out[tenant] = sum(each["outcome"] == "bad" and each["start"] > last for each in found)
    return out


@pytest.fixture(scope="module")
def week(opened: Engine) -> list[dict[str, Any]]:
    """Tenants from one request an hour to one a minute, with stretches in which most fail."""
    empty(opened)
    rng = random.Random(5)
    facts = []
    for tenant, gap in (("a", 3600), ("b", 600), ("c", 60), ("d", 40_000)):
        at = 0.0
        while (at := at + rng.expovariate(1 / gap)) < 7 * 86_400:
            failing = int(at) // 20_000 % 3 == 1
            start = EPOCH + timedelta(seconds=rng.choice([at, at // 60 * 60]))
            outcome = rng.choices(["good", "bad", "excluded"], [1, 8 if failing else 1, 1])[0]
            facts.append(fact(start, len(facts), tenant=tenant, outcome=outcome))
    put(opened, facts)
    SloCounts(opened, [SLO], SloSettings(), ManualClock(EPOCH)).ensure()
    return facts


@given(
    second=st.one_of(st.integers(0, 7 * 86_400), st.integers(0, 7 * 24).map(lambda h: h * 3600)),
    reach=st.sampled_from([timedelta(hours=5), DAY, REACH]),
)
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_run_is_the_bad_requests_since_the_last_good_one_at_any_instant(
    opened: Engine, week: list[dict[str, Any]], second: int, reach: timedelta
) -> None:
    now = EPOCH + timedelta(seconds=second)

    assert runs(opened, now, reach) == expected(week, now, reach)


def test_a_late_good_request_ends_the_run_that_it_falls_into(engine: Engine) -> None:
    counts = SloCounts(engine, [SLO], SloSettings(), ManualClock(EPOCH))
    counts.ensure()
    bad = [fact(EPOCH + timedelta(minutes=m), m, outcome="bad") for m in range(8)]
    put(engine, bad)
    counts.refresh(dirty(bad), 1)
    late = [fact(EPOCH + timedelta(minutes=4, seconds=30), 99)]
    now = EPOCH + timedelta(minutes=10)

    before = runs(engine, now)
    put(engine, late)
    counts.refresh(dirty(late), 2)

    assert (before, runs(engine, now)) == ({"acme": 8}, {"acme": 3})


def test_rows_written_before_runs_were_kept_break_a_run_where_they_hold_a_good_request(
    engine: Engine,
) -> None:
    for table in slo.schema.TABLES.values():
        engine.execute(f"ALTER TABLE {table} DROP COLUMN tail")
    engine.execute(
        "INSERT INTO slo_counts_1h (slo, definition, bucket, group, good, bad, excluded, "
        "bad_reasons, excluded_reasons, version, deleted) SELECT 'availability', "
        f"'{SLO.definition}', toDateTime({nanoseconds(EPOCH) // NS} + number * 3600, 'UTC'), "
        "['acme'], number = 0 ? 2 : 0, number = 0 ? 1 : 2, 0, map(), map(), 1, 0 FROM numbers(2)"
    )
    engine.execute(
        "INSERT INTO slo_complete (step, floor, until) VALUES "
        f"(3600, {nanoseconds(EPOCH) // NS}, {nanoseconds(EPOCH) // NS + 7200})"
    )

    slo.schema.create(engine)

    assert runs(engine, EPOCH + timedelta(hours=3)) == {"acme": 2}
