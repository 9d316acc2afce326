"""How long a backtest takes: thirty days of requests in a Parquet file, on this machine.

    python benchmarks/backtest.py [--requests 10000000] [--tenants 20] [--csv]

The facts are made with numpy: a daily wave, tenants of very different sizes, 1 % failures, and an
incident every three days. Three SLOs are judged at the live cadence (5 s: 518,400 instants): one by
tenant, one by tenant and model, one over everything.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

DAY_S = 86_400
BEGIN = 1_767_225_600
SLOS = """
kind: slo
name: chat-ttft
objective: 95
group_by: [tenant]
eligible: route = '/v1/chat/completions'
good:
  answered: outcome = 'good'
  first token: ttft_ms <= 2000
---
kind: slo
name: availability
objective: 99
group_by: [tenant, model]
good: outcome = 'good'
---
kind: slo
name: everything
objective: 99.5
good: outcome = 'good'
"""


def make_facts(requests: int, tenants: int, days: int = 30) -> pa.Table:
    dice = np.random.default_rng(7)
    day = dice.integers(0, days, requests)
    hour = (dice.normal(14, 4, requests) % 24) * 3600
    start = np.sort(BEGIN + day * DAY_S + hour + dice.random(requests))
    weights = 1 / np.arange(1, tenants + 1)
    tenant = dice.choice(tenants, requests, p=weights / weights.sum())
    failed = dice.random(requests) < 0.002
    for incident in range(0, days, 3):
        begin = BEGIN + incident * DAY_S + 13.5 * 3600
        hit = (start >= begin) & (start < begin + 1200) & (tenant == incident % tenants)
        failed |= hit & (dice.random(requests) < 0.8)
    outcome = np.where(failed, 1, np.where(dice.random(requests) < 0.01, 2, 0))
    return pa.table(
        {
            "start": start,
            "tenant": named([f"tenant-{n}" for n in range(tenants)], tenant),
            "route": named(
                ["/v1/chat/completions", "/v1/embeddings"], dice.integers(0, 10, requests) // 9
            ),
            "model": named(["large", "small", "code"], dice.integers(0, 3, requests)),
            "outcome": named(["good", "bad", "excluded"], outcome),
            "ttft_ms": dice.gamma(2, 180, requests),
            "tpot_ms": dice.gamma(4, 8, requests),
            "duration_ms": dice.gamma(3, 900, requests),
            "prompt_tokens": dice.integers(1, 8000, requests),
            "cached_tokens": dice.integers(0, 4000, requests),
            "completion_tokens": dice.integers(1, 900, requests),
            "cost_usd": dice.random(requests) / 100,
        }
    )


def named(names: list[str], numbers: np.ndarray) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), names).cast("string")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000_000)
    parser.add_argument("--tenants", type=int, default=20)
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--what-if", action="store_true", help="two more targets, classic tiers")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        facts = Path(folder) / ("facts.csv" if asked.csv else "facts.parquet")
        table = make_facts(asked.requests, asked.tenants)
        (pyarrow.csv.write_csv if asked.csv else pq.write_table)(table, facts)
        del table
        documents = Path(folder) / "slo.yaml"
        documents.write_text(SLOS)
        command = [sys.executable, "-m", "tokenweir", "slo", "backtest", "--json"]
        command += ["--slo", str(documents), "--facts", str(facts)]
        if asked.what_if:
            command += ["--target", "99", "--target", "99.9", "--tiers", "classic"]
        began = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        wall_s = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads(done.stdout)
    rows = (
        ("requests", f"{report['requests']:,}"),
        ("instants", f"{report['evaluations']:,}"),
        ("groups", f"{len(report['final']):,}"),
        ("pages, tickets, misses", ", ".join(f"{n:,}" for n in report["totals"].values())),
        ("wall", f"{wall_s:.1f} s"),
        ("CPU", f"{used.ru_utime + used.ru_stime:.1f} s"),
        ("peak memory", f"{used.ru_maxrss / 1024:,.0f} MiB"),
    )
    for name, value in rows:
        print(f"{name:<24}{value:>16}")


if __name__ == "__main__":
    main()
