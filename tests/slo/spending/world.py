"""A small deployment with a bill: requests, replicas, prices, and who judges what they cost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from cost.prices import GpuPrice, Hardware, PriceBook, TokenPrice
from cost.read import Window, read_ledger
from cost.report import CostReport, report
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.spending.judge import CostJudge
from slo.spending.model import PICO, CostSlo, Per
from slo.spending.tiers import derive
from slo.tiers import Tier
from slo.verdict import Verdict
from store.engine import Engine
from tests.slo.made_facts import NS, fact, nanoseconds
from tests.slo.made_facts import alive as heard
from tokenweir.spending import LedgerSpending

T0 = datetime(2026, 3, 10, tzinfo=UTC)
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
SINCE = date(2026, 1, 1)
BOOK = PriceBook(
    name="test",
    gpus=(
        GpuPrice("h100", SINCE, Decimal("2.49"), Decimal("0.30")),
        GpuPrice("l40s", SINCE, Decimal("0.87")),
    ),
    tokens=(TokenPrice("api-model", SINCE, Decimal("0.6"), Decimal("2.4")),),
    hardware=(Hardware("small", SINCE, "l40s", 1),),
)


def cost_slo(
    at_most_usd: str = "0.01",
    per: Per = Per.GOOD_REQUEST,
    group_by: tuple[str, ...] = ("tenant", "route"),
    **changes: Any,
) -> CostSlo:
    window = changes.pop("window", 30 * DAY)
    return CostSlo(
        name=changes.pop("name", "chat-cost"),
        at_most=int(Decimal(at_most_usd) * PICO),
        per=per,
        window=window,
        tiers=changes.pop("tiers", derive(window)),
        good=changes.pop("good", parse_clauses("outcome = 'good'")),
        group_by=group_by,
        **changes,
    )


def tier(factor: float, long: timedelta, short: timedelta, severity: Any = "ticket") -> Tier:
    return Tier("dear", severity, factor, long, short, min_bad=0, hold=short)


def request(at: datetime, number: int, took_s: float = 60, **fields: Any) -> dict[str, Any]:
    """Make a request that ran on its engine for two thirds of its time."""
    start = nanoseconds(at)
    return fact(start, number) | {
        "end": start + round(took_s * NS),
        "engine_s": round(took_s * 2 / 3, 6),
        "model": "llama",
        "replica": "r0",
        "prompt_tokens": 1000,
        "cached_tokens": 0,
        "completion_tokens": 100,
        **fields,
    }


def replica(
    engine: Engine, name: str, start: datetime, end: datetime, gpu_type: str = "h100",
    model: str = "llama",
) -> None:  # fmt: skip
    """Say that a replica with four GPUs was alive, in records of an hour."""
    starts = [start + HOUR * number for number in range(-(-(end - start) // HOUR))]
    ends = [min(at + HOUR, end) for at in starts]
    many = len(starts)
    columns: dict[str, Any] = {
        "service": ["vllm"] * many, "instance": [name] * many, "role": ["engine"] * many,
        "model": [model] * many, "gpu_type": [gpu_type] * many,
    }  # fmt: skip
    arrays = {key: pa.array(values, pa.string()) for key, values in columns.items()}
    arrays["gpu_count"] = pa.array([4] * many, pa.int64())
    for key, times in (("start", starts), ("end", ends)):
        arrays[key] = pa.array(times, pa.timestamp("ns", "UTC"))
    engine.insert_arrow("alive", pa.table(arrays))


def some_requests(
    seed: int, count: int, hours: int, *, first: int = 0, since: datetime = T0
) -> list[dict[str, Any]]:
    """Make requests of all kinds: long ones, unpriced ones, ones without tokens or an engine."""
    chance = random.Random(seed)
    out = []
    for number in range(first, first + count):
        at = since + timedelta(seconds=chance.randrange(0, hours * 3600))
        place = chance.choice([
            {"replica": "r0"}, {"replica": "r1"}, {"replica": "r2", "model": "small"},
            {"replica": "", "model": "api-model", "engine_s": None},
            {"replica": "gone", "model": "api-model"}, {"replica": "", "engine_s": None},
            {"replica": "", "engine_s": None, "prompt_tokens": None, "completion_tokens": None},
        ])  # fmt: skip
        took = chance.choice([2.0, 60.0, 900.0, chance.uniform(3600, 9000)])
        out.append(request(
            at, number, took, **place,
            tenant=chance.choice(["acme", "globex", "initech"]),
            route=chance.choice(["/v1/chat/completions", "/v1/embeddings"]),
            priority=chance.choice(["", "batch"]),
            outcome=chance.choice(["good", "good", "good", "bad", "excluded"]),
        ))  # fmt: skip
    return out


def make_judge(engine: Engine, *slos: CostSlo, book: PriceBook = BOOK, **more: Any) -> CostJudge:
    return CostJudge(engine, slos, LedgerSpending(engine, book), SloSettings(), **more)


def hear(engine: Engine, until: datetime, length: timedelta) -> None:
    """Say that the gateway was heard all that time."""
    heard(engine, [until - MINUTE * number for number in range(1, length // MINUTE + 1)])


def bill(
    engine: Engine, since: datetime, until: datetime, by: Sequence[Any], book: PriceBook = BOOK
) -> CostReport:
    return report(read_ledger(engine, book, Window(since, until), by), by)


def by_group(verdicts: Sequence[Verdict]) -> dict[tuple[str, ...], Verdict]:
    return {tuple(each.group.values()): each for each in verdicts}
