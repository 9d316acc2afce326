"""How long one evaluation of many groups takes: `python benchmarks/slo_groups.py [--groups 10000]`.

One SLO of 30 days with the derived tiers, a group a tenant, in an embedded store with as many count
rows as such an instance holds: every hour of every group for 30 days (`--share` of them have
requests), minutes of the last hours, ten seconds of the last minutes. The bar is one evaluation of
10,000 groups within 5 s. `--slices 5m` counts slices of time, `--weighted` tokens.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import slo.schema
import store.schema
from base.durations import parse_duration
from slo.evaluator import Evaluator
from slo.model import Slo
from slo.overrides import Override
from slo.parse import parse_clauses, parse_number
from slo.settings import SloSettings
from slo.slices import MIN_BAD, make_slices
from slo.tiers import derive
from slo.weight import UNITS, Weight
from store.engine import Engine
from store.open import open_engine

NOW = datetime(2026, 11, 30, 12, 3, 7, tzinfo=UTC)
WINDOW = timedelta(days=30)
SLO = Slo(
    "chat", 0.99, WINDOW, parse_clauses("outcome = 'good'"), derive(0.99, WINDOW),
    group_by=("tenant",),
)  # fmt: skip
_AT = int(NOW.timestamp())


def main() -> None:
    """Fill a store, evaluate a few times, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.5, help="of hours with requests")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--weighted", action="store_true", help="weigh requests by tokens")
    parser.add_argument("--overrides", type=int, default=0, help="other objectives, 20 groups each")
    parser.add_argument("--slices", type=parse_duration, help="count slices of this length")
    args = parser.parse_args()
    judged = SLO
    if args.slices is not None:
        tiers = derive(0.99, WINDOW, MIN_BAD, args.slices)
        judged = replace(SLO, tiers=tiers, slices=make_slices(args.slices, 99))
    if args.weighted:
        judged = replace(SLO, weight=Weight(parse_number("completion_tokens"), UNITS["tokens"]))
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(f"chdb://{folder}")
        store.schema.create(engine)
        slo.schema.create(engine)
        rows = fill(engine, judged, args.groups, args.share)
        judged = replace(judged, overrides=tuple(map(override, range(args.overrides))))
        evaluator = Evaluator(engine, [judged], SloSettings())
        walls, cpus = [], []
        for _ in range(args.times):
            wall, cpu = time.perf_counter(), time.process_time()
            verdicts = evaluator.evaluate(NOW)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
        engine.close()
    table = Table("groups", "count rows", "first, s", "then, s", "CPU, s", "peak memory, MiB")
    table.add_row(
        f"{len(verdicts):,}",
        f"{rows:,}",
        f"{walls[0]:.2f}",
        f"{sorted(walls[1:])[len(walls[1:]) // 2]:.2f}",
        f"{sorted(cpus)[len(cpus) // 2]:.2f}",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f}",
    )
    Console().print(table)


def override(number: int) -> Override:
    """Make an override for twenty tenants, with an objective and tiers of its own."""
    objective = (0.9, 0.95, 0.999, 0.9999)[number % 4]
    tenants = tuple(f"tenant-{20 * number + each:05d}" for each in range(20))
    return Override((("tenant", tenants),), objective, derive(objective, WINDOW))


def fill(engine: Engine, judged: Slo, groups: int, share: float) -> int:
    """Write counts as they would be after 30 days; returns how many rows."""
    random = np.random.default_rng(7)
    hours = np.arange(_AT // 3600 - 720, _AT // 3600 - 1) * 3600
    rows = sum(
        _insert(engine, judged, "slo_counts_1h", groups, day, share, random)
        for day in np.array_split(hours, 30)
    )
    minutes = np.arange(_AT // 60 - 180, _AT // 60 - 5) * 60
    rows += _insert(engine, judged, "slo_counts_1m", groups, minutes, share / 10, random)
    tens = np.arange(_AT // 10 - 60, _AT // 10) * 10
    rows += _insert(engine, judged, "slo_counts_10s", groups, tens, share / 10, random)
    engine.execute(f"INSERT INTO slo_built VALUES ('{judged.name}', '{judged.definition}')")
    engine.execute(
        f"INSERT INTO slo_complete VALUES (3600, 0, {_AT // 3600 * 3600 - 3600}), "
        f"(60, 0, {_AT // 60 * 60 - 300}), (10, 0, 0)"
    )
    engine.execute(
        "INSERT INTO source_minutes (minute, layer, service, instance, first, last) SELECT "
        f"toDateTime({_AT} - number * 60, 'UTC') AS m, 'gateway', 'gateway', '0', m, m "
        "FROM numbers(43200)"
    )
    return rows


def _insert(
    engine: Engine,
    judged: Slo,
    table: str,
    groups: int,
    buckets: np.ndarray[tuple[int], np.dtype[np.int64]],
    share: float,
    random: np.random.Generator,
) -> int:
    cells = np.flatnonzero(random.random(groups * len(buckets)) < share)
    at, who = buckets[cells % len(buckets)], cells // len(buckets)
    names = pa.array([f"tenant-{number:05d}" for number in range(groups)]).take(pa.array(who))
    size = len(cells)
    nothing = pa.array([[]] * size, pa.map_(pa.string(), pa.uint64()))
    zero = pa.array(np.zeros(size), pa.uint64())
    engine.insert_arrow(
        table,
        pa.table(
            {
                "slo": pa.array([judged.name] * size),
                "definition": pa.array([judged.definition] * size),
                "bucket": pa.array(at, pa.int64()).cast(pa.timestamp("s", "UTC")),
                "group": pa.ListArray.from_arrays(pa.array(np.arange(size + 1), pa.int32()), names),
                "good": pa.array(random.integers(1, 50, size), pa.uint64()),
                "bad": pa.array(random.random(size) < 0.05, pa.uint8()).cast(pa.uint64()),
                "excluded": zero,
                "bad_reasons": nothing,
                "excluded_reasons": nothing,
                "version": pa.array(np.full(size, 3), pa.uint64()),
                "deleted": pa.array(np.zeros(size), pa.uint8()),
            }
        ),
    )
    return size


if __name__ == "__main__":
    main()
