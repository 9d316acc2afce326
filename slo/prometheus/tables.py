"""What is kept of Prometheus beside the counts: when it was heard, and how far it was read.

`slo_prometheus_minutes` holds the minutes in which the source of an SLO was alive;
`slo_prometheus_read` the one stretch of time, [since, until), that is read and will not change.
"""

from __future__ import annotations

from store.dialect import for_cluster
from store.engine import Engine

MINUTES, READ = "slo_prometheus_minutes", "slo_prometheus_read"

_MINUTES = f"""
CREATE TABLE IF NOT EXISTS {MINUTES} (
  slo LowCardinality(String),
  definition LowCardinality(String),
  minute DateTime('UTC') CODEC(Delta, ZSTD(1)),
  first DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
  last DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
  version UInt64 CODEC(Delta, ZSTD(1)),
  deleted UInt8
) ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toYYYYMM(minute)
ORDER BY (slo, definition, minute)"""

_READ = f"""
CREATE TABLE IF NOT EXISTS {READ} (
  slo String,
  definition String,
  since DateTime('UTC'),
  until DateTime('UTC'),
  version UInt64
) ENGINE = ReplacingMergeTree(version)
ORDER BY (slo, definition)"""


def create(engine: Engine) -> None:
    for statement in (_MINUTES, _READ):
        engine.execute(for_cluster(statement, engine.cluster))
