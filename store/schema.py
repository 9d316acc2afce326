"""Every table of the telemetry store.

Spans are kept as they came, one row per (trace, span) after merging. Facts, rollups and the
bookkeeping tables are derived and can be rebuilt. `create` is idempotent.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.columns import VOCABULARY_COLUMNS
from store.dialect import for_cluster
from store.engine import Engine
from store.evaluation import COUNT_SQL

_UTC9 = "DateTime64(9, 'UTC')"
_MAP = "Map(LowCardinality(String), String)"
# A file for each of many columns, and a megabyte of buffer for each file, would cost an insert of
# a second of traffic 300 MB and a third of its time.
_LEAN = "min_bytes_for_wide_part = 104857600, min_columns_to_activate_adaptive_write_buffer = 10"
# Merging a row costs half of what taking it in did, each time: merge more parts at once, so less
# often, and leave large ones alone.
_SELDOM = "merge_selector_base = 12, max_bytes_to_merge_at_max_space_in_pool = 536870912"


_EVALUATIONS = f"evaluations UInt8 DEFAULT {COUNT_SQL}"

# Columns that came after the first data folders: what was stored before does not know them.
_ADDED_TO_SPANS = ("itl_p95_ms", "eval_name", "eval_score", "eval_label")
_ADDED_TO_FACTS = {
    "itl_p95_ms": "Nullable(Float64)",
    "eval_name": "LowCardinality(String)",
    "eval_score": "Nullable(Float64)",
    "eval_label": "LowCardinality(String)",
    "tool_calls": "Nullable(Int64)",
    "tool_errors": "Nullable(Int64)",
}


def _spans() -> str:
    typed = ",\n  ".join(f"{name} {kind}" for name, kind in VOCABULARY_COLUMNS.items())
    # `version` orders conflicting duplicates by content, equal ones by age (oldest first), so that
    # the survivor is the same whatever the order of arrival.
    return f"""
CREATE TABLE IF NOT EXISTS spans (
  bucket DateTime('UTC') CODEC(Delta, ZSTD(1)),
  trace_id FixedString(16) CODEC(ZSTD(1)),
  span_id FixedString(8) CODEC(ZSTD(1)),
  parent_span_id FixedString(8) CODEC(ZSTD(1)),
  name LowCardinality(String),
  kind Int8,
  start {_UTC9} CODEC(Delta, ZSTD(1)),
  end {_UTC9} CODEC(Delta, ZSTD(1)),
  status_code Int8,
  status_message String CODEC(ZSTD(1)),
  service LowCardinality(String),
  instance LowCardinality(String),
  scope LowCardinality(String),
  layer LowCardinality(String),
  {typed},
  attributes {_MAP} CODEC(ZSTD(1)),
  resource {_MAP} CODEC(ZSTD(1)),
  `events.time` Array({_UTC9}),
  `events.name` Array(LowCardinality(String)),
  `events.attributes` Array({_MAP}),
  credential_tenant LowCardinality(String),
  source LowCardinality(String),
  received {_UTC9} CODEC(Delta, ZSTD(1)),
  seq UInt64 CODEC(Delta, ZSTD(1)),
  version UInt64 CODEC(ZSTD(1)),
  {_EVALUATIONS},
  INDEX by_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1,
  INDEX by_batch seq TYPE minmax GRANULARITY 1
) ENGINE = ReplacingMergeTree(version)
PARTITION BY toDate(bucket)
ORDER BY (bucket, trace_id, span_id)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, {_LEAN}, {_SELDOM}"""


_FACTS = f"""
CREATE TABLE IF NOT EXISTS facts (
  start {_UTC9} CODEC(Delta, ZSTD(1)),
  end {_UTC9} CODEC(Delta, ZSTD(1)),
  trace_id FixedString(16) CODEC(ZSTD(1)),
  request_id String CODEC(ZSTD(1)),
  tenant LowCardinality(String),
  route LowCardinality(String),
  model LowCardinality(String),
  replica LowCardinality(String),
  user_id String CODEC(ZSTD(1)),
  feature LowCardinality(String),
  app_version LowCardinality(String),
  priority LowCardinality(String),
  gateway LowCardinality(String),
  outcome Enum8('good' = 1, 'bad' = 2, 'excluded' = 3),
  outcome_reason LowCardinality(String),
  http_status Nullable(Int32),
  duration_ms Nullable(Float64),
  ttft_ms Nullable(Float64),
  tpot_ms Nullable(Float64),
  queue_ms Nullable(Float64),
  prefill_ms Nullable(Float64),
  decode_ms Nullable(Float64),
  engine_s Nullable(Float64),
  prompt_tokens Nullable(Int64),
  cached_tokens Nullable(Int64),
  completion_tokens Nullable(Int64),
  reasoning_tokens Nullable(Int64),
  usage_source LowCardinality(String),
  reported_cost_usd Nullable(Float64),
  attempts UInt16,
  streaming Nullable(Bool),
  finish_reason LowCardinality(String),
  sources Array(LowCardinality(String)),
  conflicts Array(String),
  conversation_id String CODEC(ZSTD(1)),
  task_id String CODEC(ZSTD(1)),
  {", ".join(f"{name} {kind}" for name, kind in _ADDED_TO_FACTS.items())},
  version UInt64 CODEC(Delta, ZSTD(1)),
  deleted UInt8,
  INDEX by_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY toDate(start)
ORDER BY (toStartOfMinute(start), tenant, route, trace_id, request_id)
SETTINGS {_LEAN}"""

ROLLUP_KEYS = (
    "bucket",
    "tenant",
    "route",
    "model",
    "replica",
    "priority",
    "outcome",
    "outcome_reason",
)


def _rollup(table: str, partition: str) -> str:
    return f"""
CREATE TABLE IF NOT EXISTS {table} (
  bucket DateTime('UTC') CODEC(Delta, ZSTD(1)),
  tenant LowCardinality(String),
  route LowCardinality(String),
  model LowCardinality(String),
  replica LowCardinality(String),
  priority LowCardinality(String),
  outcome Enum8('good' = 1, 'bad' = 2, 'excluded' = 3),
  outcome_reason LowCardinality(String),
  requests UInt64,
  prompt_tokens UInt64,
  cached_tokens UInt64,
  completion_tokens UInt64,
  unknown_usage UInt64,
  engine_s Float64,
  duration_ms_sum Float64,
  ttft_hist Map(Int16, UInt64),
  duration_hist Map(Int16, UInt64),
  version UInt64 CODEC(Delta, ZSTD(1)),
  deleted UInt8
) ENGINE = ReplacingMergeTree(version, deleted)
PARTITION BY {partition}
ORDER BY ({", ".join(ROLLUP_KEYS)})"""


_ALIVE = f"""
CREATE TABLE IF NOT EXISTS alive (
  service LowCardinality(String),
  instance LowCardinality(String),
  role LowCardinality(String),
  model LowCardinality(String),
  gpu_type LowCardinality(String),
  gpu_count Nullable(Int64),
  start {_UTC9},
  end {_UTC9}
) ENGINE = ReplacingMergeTree()
PARTITION BY toYYYYMM(start)
ORDER BY (start, service, instance, role, end)
SETTINGS non_replicated_deduplication_window = 1000"""

_SOURCE_MINUTES = f"""
CREATE TABLE IF NOT EXISTS source_minutes (
  minute DateTime('UTC'),
  layer LowCardinality(String),
  service LowCardinality(String),
  instance LowCardinality(String),
  first SimpleAggregateFunction(min, {_UTC9}),
  last SimpleAggregateFunction(max, {_UTC9})
) ENGINE = AggregatingMergeTree()
PARTITION BY toYYYYMM(minute)
ORDER BY (minute, layer, service, instance)
SETTINGS non_replicated_deduplication_window = 1000"""

_INGEST_BATCHES = """
CREATE TABLE IF NOT EXISTS ingest_batches (
  seq UInt64,
  source LowCardinality(String),
  tenant LowCardinality(String),
  received SimpleAggregateFunction(max, DateTime('UTC')),
  accepted SimpleAggregateFunction(sum, UInt64),
  late SimpleAggregateFunction(sum, UInt64)
) ENGINE = AggregatingMergeTree()
ORDER BY (seq, source, tenant)
SETTINGS non_replicated_deduplication_window = 1000"""

_INGEST_DUPLICATES = """
CREATE TABLE IF NOT EXISTS ingest_duplicates (
  seq UInt64,
  source LowCardinality(String),
  tenant LowCardinality(String),
  duplicate UInt64
) ENGINE = ReplacingMergeTree()
ORDER BY (seq, source, tenant)"""

_UNKNOWN_NAMES = """
CREATE TABLE IF NOT EXISTS unknown_names (
  day Date,
  source LowCardinality(String),
  tenant LowCardinality(String),
  name LowCardinality(String),
  spans SimpleAggregateFunction(sum, UInt64)
) ENGINE = AggregatingMergeTree()
ORDER BY (day, source, tenant, name)
SETTINGS non_replicated_deduplication_window = 1000"""

TABLES: tuple[str, ...] = (
    _spans(),
    _FACTS,
    _rollup("rollup_10s", "toDate(bucket)"),
    _rollup("rollup_1m", "toDate(bucket)"),
    _rollup("rollup_1h", "toYYYYMM(bucket)"),
    _ALIVE,
    _SOURCE_MINUTES,
    _INGEST_BATCHES,
    _INGEST_DUPLICATES,
    _UNKNOWN_NAMES,
)

# An event is late when it arrives this long after it ended; counted, never dropped.
LATE_S = 60

# Views on `spans`: bookkeeping that must be as exact as the insert itself.
VIEWS: tuple[str, ...] = (
    """
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_alive TO alive AS
SELECT service, instance, role, model, gpu_type, gpu_count, start, end
FROM spans WHERE layer = 'alive'""",
    # An alive span speaks for every minute it covers (a day at most), others for their two ends.
    """
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_source_minutes TO source_minutes AS
SELECT minute, layer, service, instance,
  min(greatest(start, toDateTime64(minute, 9, 'UTC'))) AS first,
  max(least(end, toDateTime64(minute + 60, 9, 'UTC'))) AS last
FROM (
  SELECT if(layer = 'alive', role, layer) AS layer, service, instance, start, end,
    toStartOfMinute(toDateTime(start, 'UTC')) AS from_minute,
    toStartOfMinute(toDateTime(end, 'UTC')) AS to_minute,
    if(spans.layer = 'alive',
      arrayMap(i -> from_minute + 60 * i,
        range(toUInt32(least(dateDiff('minute', from_minute, to_minute), 1440) + 1))),
      arrayDistinct([from_minute, to_minute])) AS minutes
  FROM spans
) ARRAY JOIN minutes AS minute
GROUP BY minute, layer, service, instance""",
    f"""
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_ingest_batches TO ingest_batches AS
SELECT seq, source, credential_tenant AS tenant, max(toDateTime(received, 'UTC')) AS received,
  count() AS accepted, countIf(dateDiff('second', end, spans.received) > {LATE_S}) AS late
FROM spans GROUP BY seq, source, tenant""",
)


def create(engine: Engine) -> None:
    """Create all of store's tables where they do not exist yet, and the columns they lack."""
    for statement in (*TABLES, *_added(), *VIEWS):
        engine.execute(for_cluster(statement, engine.cluster))


def _added() -> tuple[str, str]:
    spans = [f"{name} {VOCABULARY_COLUMNS[name]}" for name in _ADDED_TO_SPANS]
    facts = [f"{name} {kind}" for name, kind in _ADDED_TO_FACTS.items()]
    return (
        f"ALTER TABLE spans {_add([*spans, _EVALUATIONS])}",
        f"ALTER TABLE facts {_add(facts)}",
    )


def _add(columns: Sequence[str]) -> str:
    return ", ".join(f"ADD COLUMN IF NOT EXISTS {column}" for column in columns)
