import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.clock import ManualClock
from slo.counts import SloCounts
from slo.model import Slo
from slo.parse import parse_clauses, parse_filter
from slo.settings import SloSettings
from slo.tiers import derive
from slo.window_counts import GroupCounts, count_windows
from store.engine import Engine
from tests.slo.conftest import empty
from tests.slo.made_facts import EPOCH, dirty, fact, put
from tests.slo.recount import recount

DAY = timedelta(days=1)
LENGTHS = [
    timedelta(seconds=10), timedelta(seconds=37), timedelta(minutes=1), timedelta(minutes=5),
    timedelta(minutes=30), timedelta(hours=1), timedelta(hours=6), timedelta(days=3),
    timedelta(days=30), timedelta(microseconds=1_500_001),
]  # fmt: skip


def make_slo(
    name: str = "chat-ttft",
    good: str = "outcome = 'good' and ttft_ms <= 2000",
    eligible: str | None = "route = '/v1/chat/completions'",
    group_by: tuple[str, ...] = ("tenant",),
) -> Slo:
    window = timedelta(days=30)
    return Slo(
        name=name,
        objective=0.95,
        window=window,
        good=parse_clauses(good),
        tiers=derive(0.95, window),
        eligible=parse_filter(eligible) if eligible else None,
        group_by=group_by,
    )


TTFT = make_slo()
ALL = make_slo("all", "outcome = 'good'", None, ())
PAIRS = make_slo(
    "pairs", "outcome = 'good' and tpot_ms < 50 and ttft_ms < 3000", None, ("tenant", "model")
)


def keep(engine: Engine, slos: Sequence[Slo]) -> SloCounts:
    return SloCounts(engine, slos, SloSettings(), ManualClock(EPOCH))


def random_facts(rng: random.Random, count: int, over: timedelta) -> list[dict[str, Any]]:
    """Scatter requests, many of them right on the edges of buckets."""
    start = dirty([fact(EPOCH)])[0]
    facts = []
    for number in range(count):
        at = fact(start + over * rng.random())["start"]
        size = rng.choice([1, 10**9, 10 * 10**9, 60 * 10**9, 3600 * 10**9])
        at = at // size * size + rng.choice([0, 0, 1, -1])
        outcome = rng.choices(["good", "bad", "excluded"], [7, 2, 1])[0]
        facts.append(
            fact(
                at,
                number,
                tenant=rng.choice(["acme", "umbrella", ""]),
                model=rng.choice(["a", "b"]),
                route=rng.choice(["/v1/chat/completions", "/v1/embeddings"]),
                outcome=outcome,
                outcome_reason={"good": "ok", "bad": rng.choice(["shed", ""])}.get(
                    outcome, "client_error"
                ),
                ttft_ms=rng.choice([None, 100.0, 2500.0]),
                tpot_ms=rng.choice([None, 20.0, 80.0]),
            )
        )
    return facts


def counted(found: Sequence[GroupCounts], lengths: Sequence[timedelta]) -> dict[Any, Any]:
    return {
        each.group: [(each.windows[length].good, each.windows[length].bad) for length in lengths]
        for each in found
    }


def expected(
    slo: Slo, facts: Sequence[dict[str, Any]], lengths: Sequence[timedelta], now: datetime
) -> dict[Any, Any]:
    tallies = {length: recount(slo, facts, now, length) for length in lengths}
    longest = max(lengths)
    return {
        group: [
            (tallies[length][group].good, tallies[length][group].bad)
            if group in tallies[length]
            else (0, 0)
            for length in lengths
        ]
        for group in tallies[longest]
    }


@pytest.fixture(scope="module")
def month(opened: Engine) -> list[dict[str, Any]]:
    empty(opened)
    facts = random_facts(random.Random(1), 4000, timedelta(days=31))
    facts += random_facts(random.Random(2), 1000, timedelta(hours=2))
    facts = [each | {"request_id": f"{number:016x}"} for number, each in enumerate(facts)]
    put(opened, facts)
    keep(opened, [TTFT, ALL, PAIRS]).ensure()
    return facts


@pytest.mark.slow
@given(
    offset=st.one_of(
        st.integers(0, 32 * 86_400 * 10**6),
        st.integers(0, 32 * 24).map(lambda hour: hour * 3600 * 10**6),
        st.integers(0, 7200).map(lambda second: second * 10**6 + 1),
    ),
    slo=st.sampled_from([TTFT, ALL, PAIRS]),
)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_windows_equal_a_recount_of_every_request_at_any_instant(
    opened: Engine, month: list[dict[str, Any]], offset: int, slo: Slo
) -> None:
    now = EPOCH + timedelta(microseconds=offset)

    found = count_windows(opened, [slo], LENGTHS, now)[slo.name]

    assert counted(found, LENGTHS) == expected(slo, month, LENGTHS, now)
    tallies = recount(slo, month, now, max(LENGTHS))
    assert {each.group: each.excluded for each in found} == {
        group: tally.excluded for group, tally in tallies.items()
    }
    assert {each.group: each.bad_reasons for each in found} == {
        group: dict(tally.bad_reasons) for group, tally in tallies.items()
    }


def test_every_clause_and_every_reason_is_named(
    opened: Engine, month: list[dict[str, Any]]
) -> None:
    found = count_windows(opened, [TTFT], [timedelta(days=40)], EPOCH + timedelta(days=32))[
        TTFT.name
    ]

    reasons = {reason for each in found for reason in each.bad_reasons}
    assert reasons == {"shed", "bad", "ttft_ms <= 2000", "ttft_ms <= 2000 (unknown)"}


def table_rows(engine: Engine, table: str) -> list[dict[str, Any]]:
    return engine.rows(
        "SELECT slo, definition, bucket, group, good, bad, excluded, bad_reasons, "
        f"excluded_reasons FROM {table} FINAL ORDER BY slo, bucket, group"
    )


def all_rows(engine: Engine) -> list[list[dict[str, Any]]]:
    return [table_rows(engine, f"slo_counts_{step}") for step in ("10s", "1m", "1h")]


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_order_duplicates_corrections_and_restarts_end_in_the_same_rows(
    opened: Engine, seed: int
) -> None:
    rng = random.Random(seed)
    newest = fact(EPOCH + timedelta(hours=4), 1000, ttft_ms=1.0)
    facts = random_facts(rng, 60, timedelta(hours=3))
    corrected = [
        each | {"version": 2, "outcome": "bad", "outcome_reason": "timeout"}
        for each in rng.sample(facts, 10)
    ]
    gone = [each | {"version": 3, "deleted": 1} for each in rng.sample(facts, 5)]
    empty(opened)
    put(opened, [*facts, newest, *corrected, *gone])
    keep(opened, [TTFT, PAIRS]).ensure()
    at_once = all_rows(opened)

    empty(opened)
    live = keep(opened, [TTFT, PAIRS])
    live.ensure()
    facts.append(newest)
    rng.shuffle(facts)
    version = 0
    for start in range(0, len(facts), 20):
        batch = facts[start : start + 20]
        version += 1
        put(opened, batch * rng.choice([1, 2]))
        live.refresh(dirty(batch), version)
        if rng.random() < 0.5:  # a restart redoes the batch with a new object
            live = keep(opened, [TTFT, PAIRS])
            live.ensure()
            live.refresh(dirty(batch), version)
    for batch in (corrected, gone):
        version += 1
        put(opened, batch)
        live.refresh(dirty(batch), version)

    assert all_rows(opened) == at_once


def test_a_request_that_moves_to_another_group_leaves_the_old_one(engine: Engine) -> None:
    counts = keep(engine, [TTFT])
    counts.ensure()
    first = fact(EPOCH, 1, tenant="", ttft_ms=1.0)
    put(engine, [first])
    counts.refresh(dirty([first]), 1)
    second = first | {"tenant": "acme", "version": 2}
    # The tenant is part of the key of facts: the store deletes the old row and writes the new one.
    put(engine, [first | {"version": 2, "deleted": 1}, second])
    counts.refresh(dirty([first]), 2)

    assert [row["group"] for row in table_rows(engine, "slo_counts_10s")] == [["acme"]]
    found = count_windows(engine, [TTFT], [DAY], EPOCH + timedelta(hours=2))[TTFT.name]
    assert [each.group for each in found] == [("acme",)]


def test_a_new_definition_is_counted_over_all_facts_and_the_old_one_forgotten(
    engine: Engine,
) -> None:
    facts = random_facts(random.Random(3), 200, timedelta(hours=5))
    put(engine, facts)
    counts = keep(engine, [TTFT])
    assert counts.ensure() == ["chat-ttft"]
    assert counts.ensure() == []
    stricter = make_slo(good="outcome = 'good' and ttft_ms <= 50")

    assert counts.replace([stricter]) == ["chat-ttft"]

    now = EPOCH + timedelta(hours=6)
    assert counted(count_windows(engine, [stricter], [DAY], now)[stricter.name], [DAY]) == expected(
        stricter, facts, [DAY], now
    )
    definitions = engine.rows("SELECT DISTINCT definition FROM slo_counts_1h FINAL")
    assert [row["definition"] for row in definitions] == [stricter.definition]


def test_while_documents_change_both_definitions_can_be_read(engine: Engine) -> None:
    facts = random_facts(random.Random(4), 200, timedelta(hours=5))
    put(engine, facts)
    counts = keep(engine, [TTFT])
    counts.ensure()
    stricter = make_slo(good="outcome = 'good' and ttft_ms <= 50")
    now = EPOCH + timedelta(hours=6)
    seen = []

    def switch() -> None:
        for slo in (TTFT, stricter):
            found = count_windows(engine, [slo], [DAY], now)[slo.name]
            seen.append(counted(found, [DAY]) == expected(slo, facts, [DAY], now))

    counts.replace([stricter], switch)

    assert seen == [True, True]


def test_a_batch_of_running_traffic_writes_ten_second_rows_only(engine: Engine) -> None:
    counts = keep(engine, [TTFT])
    counts.ensure()
    rows = {}
    for second in (0, 10, 130, 140, 3900, 3910):
        one = fact(EPOCH + timedelta(seconds=second), second, ttft_ms=1.0)
        put(engine, [one])
        counts.refresh(dirty([one]), second + 1)
        rows[second] = [len(table) for table in all_rows(engine)]

    # A minute is made two minutes, an hour five minutes after it ended.
    assert rows == {
        0: [1, 0, 0],
        10: [2, 0, 0],
        130: [3, 0, 0],
        140: [4, 0, 0],
        3900: [5, 2, 1],
        3910: [6, 2, 1],
    }


def test_objective_and_window_can_change_without_counting_again() -> None:
    other = replace(TTFT, objective=0.99, window=DAY, description="x")

    assert other.definition == TTFT.definition
    assert make_slo(group_by=()).definition != TTFT.definition


def test_counts_stay_exact_when_old_fine_rows_have_been_dropped(engine: Engine) -> None:
    facts = random_facts(random.Random(4), 800, timedelta(days=40))
    put(engine, facts)
    clock = ManualClock(EPOCH)
    counts = SloCounts(engine, [TTFT], SloSettings(), clock)
    counts.ensure()
    clock.advance(timedelta(days=40))
    late = fact(EPOCH + timedelta(days=3, seconds=5), 9000, ttft_ms=1.0)
    put(engine, [late])
    counts.refresh(dirty([late]), 5)

    for now in (EPOCH + timedelta(days=40, seconds=3), EPOCH + timedelta(days=20, seconds=33)):
        found = count_windows(engine, [TTFT], LENGTHS, now)[TTFT.name]
        assert counted(found, LENGTHS) == expected(TTFT, [*facts, late], LENGTHS, now)
    (oldest,) = engine.rows("SELECT min(bucket) AS at FROM slo_counts_10s FINAL")
    assert oldest["at"] >= EPOCH + timedelta(days=38)
    (oldest,) = engine.rows("SELECT min(bucket) AS at FROM slo_counts_1m FINAL")
    assert oldest["at"] >= EPOCH + timedelta(days=9)
