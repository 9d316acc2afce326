"""The engine's view from OTLP to typed spans, generated from the vocabulary.

    otlp (Null table) -> view -> spans

The SELECT is built in layers, so that nothing is computed twice: once per resource, once per
span, once per attribute, once per column.
"""

from __future__ import annotations

import hashlib

from collector.layers import REQUEST_SQL, layer_sql
from collector.values_sql import (
    inherited_sql,
    leftovers_sql,
    lists_sql,
    ranks_sql,
    sorted_sql,
    texts_sql,
    typed_sql,
)
from collector.vocabulary import Vocabulary
from store.dialect import for_cluster
from store.engine import Engine
from store.otlp import LANDING_TABLE


def install(engine: Engine, vocabulary: Vocabulary) -> None:
    """Create the landing table and the views of this vocabulary; drop those of another one."""
    engine.execute(for_cluster(LANDING_TABLE, engine.cluster))
    wanted = {
        _named("otlp_to_spans", select_spans(vocabulary)): ("spans", select_spans(vocabulary)),
        _named("spans_to_unknown_names", select_unknown(vocabulary)): (
            "unknown_names",
            select_unknown(vocabulary),
        ),
    }
    found = {
        row["name"]
        for row in engine.rows(
            "SELECT name FROM system.tables WHERE database = currentDatabase() "
            "AND match(name, '^(otlp_to_spans|spans_to_unknown_names)_')"
        )
    }
    for name in found - set(wanted):
        engine.execute(for_cluster(f"DROP VIEW IF EXISTS {name}", engine.cluster))
    for name, (target, select) in wanted.items():
        if name not in found:
            statement = f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} TO {target} AS {select}"
            engine.execute(for_cluster(statement, engine.cluster))


def select_spans(vocabulary: Vocabulary) -> str:
    """Write the SELECT of the view from `otlp` to `spans`.

    Innermost first: resources, scopes, spans; then ranks, positions, columns, and the layer last.
    """
    return f"""
SELECT * EXCEPT (request_path, request_method), {layer_sql(vocabulary)} AS layer
FROM (SELECT *, {REQUEST_SQL} FROM (
  SELECT
    toDateTime(intDiv(start_ns, 10000000000) * 10, 'UTC') AS bucket,
    toFixedString(substring(s_trace_id, 1, 16), 16) AS trace_id,
    toFixedString(substring(s_span_id, 1, 8), 8) AS span_id,
    toFixedString(substring(s_parent_id, 1, 8), 8) AS parent_span_id,
    s_name AS name,
    s_kind AS kind,
    fromUnixTimestamp64Nano(toInt64(start_ns), 'UTC') AS start,
    fromUnixTimestamp64Nano(toInt64(greatest(start_ns, end_ns)), 'UTC') AS end,
    s_code AS status_code,
    s_message AS status_message,
    r_service AS service,
    r_instance AS instance,
    scope_name AS scope,
    {typed_sql(vocabulary)},
    {leftovers_sql()} AS attributes,
    r_map AS resource,
    arrayMap(e -> fromUnixTimestamp64Nano(toInt64(e.time_unix_nano), 'UTC'), s_events)
      AS `events.time`,
    s_events.name AS `events.name`,
    arrayMap(e -> mapFromArrays(e.attributes.key, {texts_sql("e.attributes.value")}), s_events)
      AS `events.attributes`,
    credential_tenant,
    source,
    fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS received,
    seq,
    bitOr(bitAnd(s_hash, 0xFFFFFFFFFF000000), bitAnd(bitNot(seq), 0xFFFFFF)) AS version
  FROM (
    SELECT *, arrayConcat(a_found, h_found) AS all_found,
      arrayConcat(a_columns, h_columns) AS all_columns
    FROM (
      SELECT *, {sorted_sql("a")} FROM (
      SELECT *, {ranks_sql("a", vocabulary)} FROM (
        SELECT * EXCEPT (spans, r_hash), {lists_sql("a", "sp")},
          sp.trace_id AS s_trace_id, sp.span_id AS s_span_id, sp.parent_span_id AS s_parent_id,
          sp.name AS s_name, sp.kind AS s_kind, sp.start_time_unix_nano AS start_ns,
          sp.end_time_unix_nano AS end_ns, sp.status.code AS s_code,
          sp.status.message AS s_message, sp.events AS s_events,
          cityHash64(sp, r_hash, scope_name) AS s_hash
        FROM (
          SELECT * EXCEPT (scopes), sc.scope.name AS scope_name, sc.spans AS spans
          FROM ({_resources(vocabulary)}) ARRAY JOIN scopes AS sc
        ) ARRAY JOIN spans AS sp
      )
      )
    )
  )
))"""


def _resources(vocabulary: Vocabulary) -> str:
    return f"""
    SELECT * EXCEPT (r_keys, r_texts, r_ranks, r_names, r_found, r_columns),
      {inherited_sql(vocabulary)},
      r_texts[indexOf(r_keys, 'service.name')] AS r_service,
      r_texts[indexOf(r_keys, 'service.instance.id')] AS r_instance,
      mapFromArrays(r_keys, r_texts) AS r_map
    FROM (
      SELECT *, {sorted_sql("r")} FROM (
        SELECT *, {ranks_sql("r", vocabulary)} FROM (
          SELECT credential_tenant, received_unix_nano, source, seq, rs.scope_spans AS scopes,
            cityHash64(rs.resource, credential_tenant) AS r_hash, {lists_sql("r", "rs.resource")}
          FROM otlp ARRAY JOIN resource_spans AS rs
        )
      )
    )"""


def select_unknown(vocabulary: Vocabulary) -> str:
    """Write the SELECT of the view that counts attribute names nobody has told us about."""
    names = [known for known in vocabulary.known if not known.endswith("*")]
    prefixes = [known.removesuffix("*") for known in vocabulary.known if known.endswith("*")]
    is_known = " OR ".join(
        [f"name IN ({_quoted(names)})", *(f"startsWith(name, '{prefix}')" for prefix in prefixes)]
    )
    return f"""
SELECT toDate(received) AS day, source, credential_tenant AS tenant, name, count() AS spans
FROM spans ARRAY JOIN mapKeys(attributes) AS name
WHERE NOT ({is_known}) GROUP BY day, source, tenant, name"""


def _named(prefix: str, select: str) -> str:
    return f"{prefix}_{hashlib.sha256(select.encode()).hexdigest()[:8]}"


def _quoted(names: list[str]) -> str:
    return ", ".join("'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in names)
