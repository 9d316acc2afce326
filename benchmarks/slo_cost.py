"""How long SLOs about cost take: `python benchmarks/slo_cost.py [--requests 1000000]`.

One SLO of 30 days, a group a tenant and route, over requests on ten replicas with alive records of
a minute, in an embedded store. Printed: until a month is read after a start (several ticks), a tick
of a new minute, the other ticks of that minute, a question over HTTP (`?now=`), and the ledger of
the month as `GET /api/v1/cost` reads it.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table

import slo.schema
import store.schema
from cost.prices import GpuPrice, PriceBook
from cost.read import Window, read_ledger
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.spending.judge import CostJudge
from slo.spending.model import PICO, CostSlo, Per
from slo.spending.tiers import derive
from store.engine import Engine
from store.open import open_engine
from tokenweir.spending import LedgerSpending

NOW = datetime(2026, 11, 30, 12, 3, 7, tzinfo=UTC)
MONTH, MINUTE = timedelta(days=30), timedelta(minutes=1)
REPLICAS = 10
BOOK = PriceBook("bench", gpus=(GpuPrice("h100", date(2026, 1, 1), Decimal("2.49")),))
SLO = CostSlo(
    "chat-cost", PICO // 100, Per.GOOD_REQUEST, MONTH, derive(MONTH),
    parse_clauses("outcome = 'good'"), group_by=("tenant", "route"),
)  # fmt: skip


def main() -> None:
    """Fill a store, evaluate, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(f"chdb://{folder}")
        store.schema.create(engine)
        slo.schema.create(engine)
        fill(engine, args.requests, args.tenants)
        judge = CostJudge(engine, [SLO], LedgerSpending(engine, BOOK), SloSettings())
        table = Table("what", "wall, s", "CPU, s")
        ticks = 0

        def start() -> None:
            nonlocal ticks
            verdicts = judge.evaluate(NOW, is_tick=True)
            ticks = 1
            while "read" in (verdicts[0].problem or ""):
                verdicts = judge.evaluate(NOW, is_tick=True)
                ticks += 1

        found: list[Any] = []
        took(table, "a month after a start", start)
        took(table, "a tick of a new minute", lambda: judge.evaluate(NOW + MINUTE, is_tick=True))
        took(table, "another of that minute", lambda: judge.evaluate(NOW + MINUTE, is_tick=True))
        took(table, "a question", lambda: found.extend(judge.evaluate(NOW + MINUTE)))
        month = Window(NOW - MONTH, NOW)
        took(table, "the ledger", lambda: read_ledger(engine, BOOK, month))
        engine.close()
    Console().print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{args.requests:,} requests, {len(found)} groups, {ticks} ticks at first, {peak:,.0f} MiB"
    )


def took(table: Table, what: str, work: Callable[[], object]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    table.add_row(what, f"{time.perf_counter() - wall:.2f}", f"{time.process_time() - cpu:.2f}")


def fill(engine: Engine, requests: int, tenants: int) -> None:
    seconds, at = 30 * 86_400, int(NOW.timestamp())
    engine.execute(f"""
INSERT INTO facts (start, end, trace_id, request_id, tenant, route, model, replica, outcome,
  engine_s, prompt_tokens, cached_tokens, completion_tokens, version, deleted)
SELECT fromUnixTimestamp64Nano(began, 'UTC'), fromUnixTimestamp64Nano(began + took, 'UTC'),
  toFixedString(leftPad(toString(number), 16, '0'), 16), toString(number),
  concat('tenant-', toString(rand(1) % {tenants})), concat('/v1/', toString(rand(2) % 4)), 'llama',
  concat('r', toString(rand(3) % {REPLICAS})), if(rand(4) % 20 = 0, 'bad', 'good'),
  took / 1e9, 1000, 0, 100, 1, 0
FROM (
  SELECT number, toInt64({at - seconds} + number * {seconds} / {requests}) * 1000000000 AS began,
    toInt64(1000000000 + rand(5) * 5) AS took FROM numbers({requests})
)""")
    engine.execute(f"""
INSERT INTO alive SELECT 'vllm', concat('r', toString(number % {REPLICAS})), 'engine', 'llama',
  'h100', 1,
  toDateTime64({at - seconds} + intDiv(number, {REPLICAS}) * 60, 9, 'UTC') AS s,
  s + INTERVAL 60 SECOND FROM numbers({REPLICAS * seconds // 60})""")
    engine.execute(
        "INSERT INTO source_minutes (minute, layer, service, instance, first, last) SELECT "
        f"toDateTime({at} - number * 60, 'UTC') AS m, 'gateway', 'gateway', '0', m, m "
        "FROM numbers(43200)"
    )


if __name__ == "__main__":
    main()
