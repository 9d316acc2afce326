"""What burns, since when and on what: seeded faults are named, even spread is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from base.clock import ManualClock
from slo.causes import read_causes
from slo.counts import SloCounts
from slo.evaluator import Evaluator
from slo.exclusion import Excluded
from slo.model import Slo
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.tiers import Tier
from slo.verdict import Causes
from store.engine import Engine
from tests.slo.made_facts import EPOCH, alive, fact, put

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NOW = EPOCH + timedelta(hours=2)
BEGAN = NOW - 10 * MINUTE
CHAT = Slo(
    "chat",
    0.95,
    timedelta(days=30),
    parse_clauses("outcome = 'good' and ttft_ms <= 2000"),
    (),
)
Row = dict[str, Any]
Fault = Callable[[Row, random.Random], None]


def traffic(seed: int, fault: Fault, **fields: Any) -> list[Row]:
    """Make an hour of calm and ten minutes of a fault; one in a hundred fails anyway."""
    rng, made = random.Random(seed), []
    for number in range(2400):
        row = fact(
            NOW - HOUR + timedelta(seconds=number * 1.5),
            number + seed * 10_000,
            tenant=rng.choice(["acme", "acme", "initech", "umbrella"]),
            route=rng.choice(["/v1/chat/completions", "/v1/embeddings"]),
            model=rng.choice(["llama", "qwen"]),
            replica=rng.choice(["r0", "r1", "r2", "r3"]),
            app_version=rng.choice(["1.4", "1.5"]),
            priority=rng.choice(["high", "low"]),
            ttft_ms=rng.uniform(100, 900),
            **fields,
        )
        if rng.random() < 0.01:
            row |= {"outcome": "bad", "outcome_reason": "timeout"}
        if row["start"] >= nanos(BEGAN):
            fault(row, rng)
        made.append(row)
    return made


def nanos(at: Any) -> int:
    return int(at.timestamp()) * 1_000_000_000


def explain(engine: Engine, slo: Slo, group: tuple[str, ...] = ()) -> Causes:
    return read_causes(engine, slo, [group], NOW, 20 * MINUTE)[group]


def failing(column: str, value: str, share: float = 0.9, reason: str = "upstream_5xx") -> Fault:
    def fault(row: Row, rng: random.Random) -> None:
        if row[column] == value and rng.random() < share:
            row |= {"outcome": "bad", "outcome_reason": reason}

    return fault


def slow(column: str, value: str) -> Fault:
    def fault(row: Row, rng: random.Random) -> None:
        if row[column] == value:
            row["ttft_ms"] = rng.uniform(2500, 9000)

    return fault


FAULTS = [
    ("replica", "r3", failing("replica", "r3"), "upstream_5xx"),
    ("replica", "r1", slow("replica", "r1"), "ttft_ms <= 2000"),
    ("tenant", "initech", failing("tenant", "initech", 0.7, "shed"), "shed"),
    ("route", "/v1/embeddings", failing("route", "/v1/embeddings"), "upstream_5xx"),
    ("model", "qwen", slow("model", "qwen"), "ttft_ms <= 2000"),
    ("app_version", "1.5", failing("app_version", "1.5", 0.5), "upstream_5xx"),
    ("priority", "low", failing("priority", "low", 0.6, "preempted"), "preempted"),
]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("dimension", "value", "fault", "reason"), FAULTS)
def test_a_seeded_fault_is_named_with_its_clause_and_its_traces(
    engine: Engine, seed: int, dimension: str, value: str, fault: Fault, reason: str
) -> None:
    rows = traffic(seed, fault)
    put(engine, rows)

    causes = explain(engine, CHAT)

    assert (causes.suspects[0].dimension, causes.suspects[0].value) == (dimension, value)
    assert causes.suspects[0].of_bad > causes.suspects[0].of_all
    assert causes.reasons[0][0] == reason
    assert sum(share for _, share in causes.reasons) == pytest.approx(1)
    assert causes.since is not None
    assert abs(causes.since - BEGAN) <= 3 * MINUTE
    by_trace = {row["request_id"].rjust(32, "0"): row for row in rows}
    assert len(causes.traces) == 3
    assert {by_trace[trace][dimension] for trace in causes.traces} == {value}


def test_a_burn_that_is_everywhere_names_nobody(engine: Engine) -> None:
    def everywhere(row: Row, rng: random.Random) -> None:
        if rng.random() < 0.5:
            row |= {"outcome": "bad", "outcome_reason": "upstream_5xx"}

    put(engine, traffic(5, everywhere))

    causes = explain(engine, CHAT)

    assert causes.suspects == ()
    assert len(causes.traces) == 3


def test_a_tenant_with_most_of_the_traffic_is_no_suspect_for_having_most_failures(
    engine: Engine,
) -> None:
    def everywhere(row: Row, rng: random.Random) -> None:
        row["tenant"] = "acme" if rng.random() < 0.9 else "initech"
        if rng.random() < 0.5:
            row |= {"outcome": "bad", "outcome_reason": "upstream_5xx"}

    put(engine, traffic(6, everywhere))

    assert explain(engine, CHAT).suspects == ()


def test_groups_are_explained_apart_and_not_by_their_own_column(engine: Engine) -> None:
    slo = Slo("chat", 0.95, CHAT.window, CHAT.good, (), group_by=("tenant",))

    def fault(row: Row, rng: random.Random) -> None:
        if row["tenant"] == "acme":
            failing("replica", "r2")(row, rng)
        if row["tenant"] == "initech":
            failing("model", "qwen")(row, rng)

    put(engine, traffic(7, fault))

    found = read_causes(engine, slo, [("acme",), ("initech",), ("nobody",)], NOW, 20 * MINUTE)

    assert {group[0]: each.suspects[0].value for group, each in found.items()} == {
        "acme": "r2",
        "initech": "qwen",
    }
    assert all(s.dimension != "tenant" for each in found.values() for s in each.suspects)


def test_what_is_excluded_explains_nothing(engine: Engine) -> None:
    put(engine, traffic(8, failing("replica", "r3")))
    left_out = [Excluded("chat", (), ((BEGAN, NOW + MINUTE),))]

    for found in read_causes(engine, CHAT, [()], NOW, HOUR, left_out).values():
        assert found.suspects == ()
        assert found.since is not None
        assert found.since < BEGAN


def test_a_version_that_replaced_another_is_told_from_the_one_before(engine: Engine) -> None:
    def deployed(row: Row, rng: random.Random) -> None:
        row["app_version"] = "2.0"
        if rng.random() < 0.3:
            row |= {"outcome": "bad", "outcome_reason": "internal_error"}

    rows = traffic(14, lambda *_: None)
    for row in rows:
        row["app_version"] = "1.5"
    rng = random.Random(14)
    for row in rows:
        if row["start"] >= nanos(BEGAN):
            deployed(row, rng)
    put(engine, rows)

    first = explain(engine, CHAT).suspects[0]

    assert (first.dimension, first.value) == ("app_version", "2.0")
    assert first.of_all < 0.25


def test_hostile_names_are_only_names(engine: Engine) -> None:
    name = "x' OR 1=1 --\\"
    put(engine, traffic(9, failing("feature", name), feature=name))
    put(engine, traffic(10, lambda *_: None))

    causes = explain(engine, CHAT)

    assert (causes.suspects[0].dimension, causes.suspects[0].value) == ("feature", name)


def test_a_burning_verdict_has_its_causes_and_a_calm_one_none(engine: Engine) -> None:
    tier = Tier("fast", "page", 2, timedelta(minutes=10), timedelta(minutes=5))
    slo = replace(CHAT, tiers=(tier,), group_by=("tenant",), window=timedelta(hours=1))

    def fault(row: Row, rng: random.Random) -> None:
        if row["tenant"] == "acme":
            failing("replica", "r2")(row, rng)

    rows = traffic(11, fault)
    put(engine, rows)
    alive(engine, [NOW - n * MINUTE for n in range(70)])
    SloCounts(engine, [slo], SloSettings(), ManualClock(NOW)).ensure()

    verdicts = Evaluator(engine, [slo], SloSettings()).evaluate(NOW)

    found = {verdict.group["tenant"]: verdict.causes for verdict in verdicts}
    assert found["acme"] is not None
    assert found["acme"].suspects[0].value == "r2"
    assert found["initech"] is None
    assert found["umbrella"] is None


@pytest.mark.parametrize("what", ["requests", "prompt_tokens"])
def test_who_floods_is_named_though_everybody_fails(engine: Engine, what: str) -> None:
    def overloaded(row: Row, rng: random.Random) -> None:
        row["ttft_ms"] = rng.uniform(2500, 9000)
        if what == "prompt_tokens" and row["tenant"] == "umbrella":
            row["prompt_tokens"] = 12_000

    rows = traffic(12, overloaded, prompt_tokens=500)
    if what == "requests":
        rows += [
            fact(
                BEGAN + timedelta(seconds=n / 5), 900_000 + n, tenant="umbrella",
                ttft_ms=5000.0, prompt_tokens=500,
            )
            for n in range(2900)
        ]  # fmt: skip
    put(engine, rows)

    causes = explain(engine, CHAT)

    tenant = next(surge for surge in causes.surges if surge.dimension == "tenant")
    assert (tenant.value, tenant.what) == ("umbrella", what)
    assert tenant.per_minute > 3 * tenant.before_per_minute


def test_steady_traffic_has_no_surge(engine: Engine) -> None:
    put(engine, traffic(13, failing("replica", "r3"), prompt_tokens=500))

    assert explain(engine, CHAT).surges == ()
