"""The tables of judged requests: one row per SLO definition, group and bucket of time.

`slo_counts_10s`, `slo_counts_1m` and `slo_counts_1h` are pure functions of `facts`: a row is
recomputed while its bucket is dirty (`slo.counts`), never added to. Read them with FINAL.
`slo_built` says which definitions have been counted over all stored facts, `slo_complete` from
when until when each table may be read (`slo.completeness`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise

from slo.prometheus import tables as prometheus_tables
from store.dialect import for_cluster
from store.engine import Engine

TABLES: Mapping[timedelta, str] = {
    timedelta(seconds=10): "slo_counts_10s",
    timedelta(minutes=1): "slo_counts_1m",
    timedelta(hours=1): "slo_counts_1h",
}
"""Bucket size -> table, finest first."""


_TAIL = "tail UInt64 DEFAULT if(good = 0, bad, 0) CODEC(ZSTD(1))"
"""Bad requests after the bucket's last good one (`slo.run`); rows written before it was kept know
it only where none was good."""


_REQUESTS = (
    "requests UInt64 DEFAULT good + bad CODEC(ZSTD(1))",
    "bad_requests UInt64 DEFAULT bad CODEC(ZSTD(1))",
    "excluded_requests UInt64 DEFAULT excluded CODEC(ZSTD(1))",
    "unweighed UInt64 CODEC(ZSTD(1))",
    "squares Float64 DEFAULT good + bad CODEC(ZSTD(1))",
    "heaviest UInt64 DEFAULT good + bad > 0 CODEC(ZSTD(1))",
)
"""The requests behind the weights of an SLO that weighs them (`slo.weighed`). Of the others they
say what good, bad and excluded say, and are not read."""


def _counts(table: str) -> str:
    return f"""
CREATE TABLE IF NOT EXISTS {table} (
  slo LowCardinality(String),
  definition LowCardinality(String),
  bucket DateTime('UTC') CODEC(Delta, ZSTD(1)),
  group Array(String) CODEC(ZSTD(1)),
  good UInt64,
  bad UInt64,
  excluded UInt64,
  bad_reasons Map(String, UInt64) CODEC(ZSTD(1)),
  excluded_reasons Map(String, UInt64) CODEC(ZSTD(1)),
  {_TAIL},
  {", ".join(_REQUESTS)},
  version UInt64 CODEC(Delta, ZSTD(1)),
  deleted UInt8
) ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toYYYYMM(bucket)
ORDER BY (slo, definition, bucket, group)"""


_BUILT = """
CREATE TABLE IF NOT EXISTS slo_built (
  slo String,
  definition String
) ENGINE = ReplacingMergeTree()
ORDER BY (slo, definition)"""

_COMPLETE = """
CREATE TABLE IF NOT EXISTS slo_complete (
  step UInt32,
  floor SimpleAggregateFunction(max, DateTime('UTC')),
  until SimpleAggregateFunction(max, DateTime('UTC'))
) ENGINE = AggregatingMergeTree()
ORDER BY (step)"""


def create(engine: Engine) -> None:
    """Create the tables where they do not exist yet."""
    for statement in (*map(_counts, TABLES.values()), _BUILT, _COMPLETE):
        engine.execute(for_cluster(statement, engine.cluster))
    for table in TABLES.values():
        for before, column in pairwise(("excluded_reasons", _TAIL, *_REQUESTS)):
            after = before.partition(" ")[0]
            added = f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} AFTER {after}"
            engine.execute(for_cluster(added, engine.cluster))
    prometheus_tables.create(engine)
