"""Weights and composites: the engine's sums equal a recount of every request, to the last unit."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import slo.schema
from base.clock import ManualClock
from slo.budget import Requests
from slo.counts import SloCounts
from slo.exclusion import Excluded
from slo.model import Slo
from slo.schema import TABLES
from slo.settings import SloSettings
from slo.weighed import COLUMNS
from slo.window_counts import GroupCounts, count_windows
from store.engine import Engine
from tests.slo.conftest import empty
from tests.slo.made_facts import EPOCH, dirty, fact, put
from tests.slo.made_slos import read_slos
from tests.slo.recount import Tally, newest, recount

HOUR = timedelta(hours=1)
LENGTHS = [timedelta(seconds=37), timedelta(minutes=5), HOUR, timedelta(hours=30)]
GROUPED = {"group_by": ["tenant"]}
FIRST_TOKEN = {"first token": "ttft_ms <= 2000"}
CHAT = "route = '/v1/chat/completions'"
SLOS = {
    each.name: each
    for each in read_slos(
        [
            {"name": "ttft", "eligible": CHAT, "good": FIRST_TOKEN} | GROUPED,
            {"name": "tpot", "good": {"answered": "outcome = 'good'", "pace": "tpot_ms < 50"}},
            {"name": "unasked", "eligible": "model = 'none'"},
            {"name": "tokens", "weight": "completion_tokens", "good": "ttft_ms <= 2000"} | GROUPED,
            {"name": "dear", "weight": "reported_cost_usd", "eligible": CHAT} | GROUPED,
            {"name": "priced", "weight": {"by": "prompt_tokens - cached_tokens + 4 * "
             "coalesce(completion_tokens, 10)", "unit": "tokens"}},
            {"name": "busy", "weight": {"by": "engine_s / 3", "unit": "seconds"}},
            {"name": "ttft-one", "eligible": CHAT, "good": FIRST_TOKEN,
             "weight": {"by": "1", "unit": "tokens"}} | GROUPED,
            {"name": "all-of-one", "composite": {"all": ["ttft"]}} | GROUPED,
            {"name": "chat", "eligible": CHAT},
            {"name": "rest", "eligible": f"route is null or not ({CHAT})"},
            {"name": "everything"},
            {"name": "chat-and-rest", "composite": {"sum": {"chat": 5, "rest": 5}}},
            {"name": "all", "composite": {"all": ["ttft", "tpot", "unasked"]}} | GROUPED,
            {"name": "all-tokens", "weight": "completion_tokens",
             "composite": {"all": ["ttft", "tpot"]}},
            {"name": "sum", "composite": {"sum": {"ttft": 2, "tpot": 1, "unasked": 7}}} | GROUPED,
            {"name": "sum-tokens", "composite": {"sum": {"tokens": 3, "priced": 1}}} | GROUPED,
        ]
    )
}  # fmt: skip
JUDGED = list(SLOS.values())


def keep(engine: Engine) -> SloCounts:
    return SloCounts(engine, JUDGED, SloSettings(), ManualClock(EPOCH))


def made(seed: int, count: int, over: timedelta) -> list[dict[str, Any]]:
    """Scatter requests, many on the edges of buckets and at the same nanosecond as others."""
    dice = random.Random(seed)
    facts = []
    for number in range(count):
        at = fact(EPOCH + over * dice.random())["start"]
        size = dice.choice([1, 10**9, 10 * 10**9, 60 * 10**9, 3600 * 10**9])
        outcome = dice.choices(["good", "bad", "excluded"], [7, 3, 1])[0]
        facts.append(
            fact(
                at // size * size + dice.choice([0, 0, 1, -1]),
                number,
                tenant=dice.choice(["acme", "beta", ""]),
                route=dice.choice(["/v1/chat/completions", "/v1/embeddings", ""]),
                outcome=outcome,
                outcome_reason={"good": "ok", "bad": dice.choice(["shed", ""])}.get(
                    outcome, "quota"
                ),
                ttft_ms=dice.choice([None, 100.0, 2500.0]),
                tpot_ms=dice.choice([None, 20.0, 80.0]),
                prompt_tokens=dice.choice([None, 0, 7, 5000]),
                cached_tokens=dice.choice([None, 0, 8]),
                completion_tokens=dice.choice([None, 0, 1, 300, 100_000]),
                reported_cost_usd=dice.choice([None, 0.0, 1e-6, 0.0000005, 0.0123456, -0.5, 1e300]),
                engine_s=dice.choice([None, 0.0, 0.25, 12.3456]),
            )
        )
    return facts


def counted(found: Sequence[GroupCounts], slo: Slo) -> dict[Any, Any]:
    return {
        each.group: (
            [(each.windows[length].good, each.windows[length].bad) for length in LENGTHS],
            [each.requests[length] for length in LENGTHS] if slo.is_weighted else None,
            each.excluded,
            dict(each.bad_reasons),
            each.run,
        )
        for each in found
    }


def expected(slo: Slo, facts: Sequence[dict[str, Any]], now: Any) -> dict[Any, Any]:
    tallies = [recount(slo, facts, now, length) for length in LENGTHS]
    found = {}
    for group, longest in tallies[-1].items():
        mine = [each.get(group, Tally()) for each in tallies]
        found[group] = (
            [(each.good, each.bad) for each in mine],
            [requests_of(each) for each in mine[:-1]] + [requests_of(longest, is_longest=True)]
            if slo.is_weighted
            else None,
            longest.excluded,
            {reason: weight for reason, weight in longest.bad_reasons.items() if weight},
            longest.run,
        )
    return found


def requests_of(each: Tally, *, is_longest: bool = False) -> Requests:
    """Say what is behind a window; what does not count is told of the longest only."""
    return Requests(
        each.requests,
        each.bad_requests,
        each.heaviest,
        each.excluded_requests if is_longest else 0,
        each.unweighed if is_longest else 0,
        each.squares,
    )


@pytest.fixture(scope="module")
def day(opened: Engine) -> list[dict[str, Any]]:
    """Facts that came shuffled, late, twice and corrected, in many batches."""
    empty(opened)
    facts = made(1, 700, timedelta(hours=30))
    dice = random.Random(2)
    again = [each | {"version": 2, "ttft_ms": 1.0, "completion_tokens": 5} for each in facts[::9]]
    gone = [each | {"version": 2, "deleted": 1} for each in facts[1::31]]
    sent = [*facts, *facts[::7], *again, *gone]
    dice.shuffle(sent)
    counts = keep(opened)
    counts.ensure()
    for number, start in enumerate(range(0, len(sent), 300), start=1):
        batch = sent[start : start + 300]
        put(opened, batch)
        counts.refresh(dirty(batch), number)
    return sent


@pytest.mark.parametrize("after_s", [30 * 3600, 29 * 3600 + 1.000_001])
def test_sums_equal_a_recount_of_every_request(
    opened: Engine, day: list[dict[str, Any]], after_s: float
) -> None:
    now = EPOCH + timedelta(seconds=after_s)

    found = count_windows(opened, JUDGED, LENGTHS, now)

    for each in JUDGED:
        assert counted(found.get(each.name, []), each) == expected(each, day, now)


@pytest.mark.parametrize("name", ["tokens", "sum", "all"])
def test_what_is_excluded_later_leaves_every_sum(
    opened: Engine, day: list[dict[str, Any]], name: str
) -> None:
    now, left_out = EPOCH + timedelta(hours=30), (EPOCH + 20 * HOUR, EPOCH + 29.5 * HOUR)
    slo = SLOS[name]
    inside = [
        each | {"outcome": "excluded"}
        if fact(left_out[0])["start"] <= each["start"] < fact(left_out[1])["start"]
        and each["tenant"] == "acme"
        else each
        for each in newest(day)
    ]

    excluded = [Excluded(name, ((0, "acme"),), (left_out,))]
    found = count_windows(opened, [slo], LENGTHS, now, excluded=excluded)[name]

    assert without_reasons(counted(found, slo)) == without_reasons(expected(slo, inside, now))


def without_reasons(found: Mapping[Any, Any]) -> dict[Any, Any]:
    return {group: each[:3] + each[4:] for group, each in found.items()}


def test_a_weight_of_one_is_no_weight(opened: Engine, day: list[dict[str, Any]]) -> None:
    now = EPOCH + timedelta(hours=29)

    found = count_windows(opened, JUDGED, LENGTHS, now)

    assert [replace(each, requests={}) for each in found["ttft-one"]] == found["ttft"]
    for each in found["ttft-one"]:
        for length, behind in each.requests.items():
            count = each.windows[length]
            assert (behind.total, behind.bad) == (count.total, count.bad)
            assert behind.heaviest == min(count.total, 1)


def test_all_of_one_slo_counts_what_that_slo_counts(
    opened: Engine,
    day: list[dict[str, Any]],
) -> None:
    found = count_windows(opened, JUDGED, LENGTHS, EPOCH + timedelta(hours=30))

    assert [replace(each, bad_reasons={}) for each in found["all-of-one"]] == [
        replace(each, bad_reasons={}) for each in found["ttft"]
    ]
    named = ("ttft: first token", "ttft: first token (unknown)", "shed", "bad")
    assert {reason for each in found["all-of-one"] for reason in each.bad_reasons} == {*named}


def test_a_sum_of_equal_weights_over_disjoint_requests_is_their_union(
    opened: Engine,
    day: list[dict[str, Any]],
) -> None:
    found = count_windows(opened, JUDGED, LENGTHS, EPOCH + timedelta(hours=30))

    (both,), (union,) = found["chat-and-rest"], found["everything"]

    for length in LENGTHS:
        assert both.windows[length].good == 5 * union.windows[length].good
        assert both.windows[length].bad == 5 * union.windows[length].bad
        behind = both.requests[length]
        assert (behind.total, behind.bad) == (
            union.windows[length].total,
            union.windows[length].bad,
        )
        assert behind.heaviest == 5 * min(behind.total, 1)
    assert both.run == union.run


def test_a_store_from_before_weights_counts_on(opened: Engine, engine: Engine) -> None:
    for table in TABLES.values():
        for column in COLUMNS:
            opened.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    opened.execute(
        "INSERT INTO slo_counts_10s (slo, definition, bucket, group, good, bad, excluded, "
        f"bad_reasons, excluded_reasons, tail, version, deleted) VALUES ('everything', "
        f"'{SLOS['everything'].definition}', 10, [], 7, 2, 1, map(), map(), 0, 1, 0)"
    )

    slo.schema.create(opened)

    (row,) = opened.rows(f"SELECT {', '.join(COLUMNS)} FROM slo_counts_10s FINAL")
    assert row == {
        "requests": 9, "bad_requests": 2, "excluded_requests": 1, "unweighed": 0, "squares": 9.0,
        "heaviest": 1,
    }  # fmt: skip
    facts = made(4, 60, HOUR)
    put(engine, facts)
    keep(engine).ensure()
    now = EPOCH + HOUR
    found = count_windows(engine, JUDGED, LENGTHS, now)["tokens"]
    assert counted(found, SLOS["tokens"]) == expected(SLOS["tokens"], facts, now)
