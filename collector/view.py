"""The engine's view from OTLP to typed spans, generated from the vocabulary.

The parts of its statement are nested, and each does one thing: resources, then spans with their
attributes sorted by what they mean, then typed columns, then the layer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from collector.layers import REQUEST_SQL, layer_sql
from collector.privacy import Privacy
from collector.values_sql import (
    inherited_sql,
    kept_sql,
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
from store.otlp import LANDING, LANDING_TABLE


@dataclass(frozen=True, slots=True)
class View:
    """A materialised view; its name carries the digest of its text."""

    prefix: str
    target: str
    select: str

    @property
    def name(self) -> str:
        return f"{self.prefix}_{hashlib.sha256(self.select.encode()).hexdigest()[:8]}"


def install(engine: Engine, vocabulary: Vocabulary, privacy: Privacy | None = None) -> None:
    """Create the landing table and the views of this vocabulary; drop those of another one.

    Without `privacy` no message content is kept. Raises ConfigError for a pattern that the engine
    cannot read.
    """
    privacy = privacy or Privacy.of(vocabulary)
    privacy.check(engine)
    engine.execute(for_cluster(LANDING_TABLE, engine.cluster))
    wanted = {view.name: view for view in views_of(vocabulary, privacy)}
    prefixes = "|".join(view.prefix for view in wanted.values())
    rows = engine.rows(
        "SELECT name FROM system.tables WHERE database = currentDatabase() "
        "AND match(name, {pattern:String})",
        {"pattern": f"^({prefixes})_[0-9a-f]{{8}}$"},
    )
    found = {row["name"] for row in rows}
    for name in sorted(found - set(wanted)):
        engine.execute(for_cluster(f"DROP VIEW IF EXISTS {name}", engine.cluster))
    for name, view in wanted.items():
        if name not in found:
            statement = f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} TO {view.target}"
            engine.execute(for_cluster(f"{statement} AS {view.select}", engine.cluster))


def views_of(vocabulary: Vocabulary, privacy: Privacy) -> tuple[View, ...]:
    """Generate the views, last target first: a view must not run before its target's view is."""
    return (
        View("spans_to_unknown_names", "unknown_names", _select_unknown(vocabulary)),
        View("otlp_to_spans", "spans", _select_layered(vocabulary, privacy)),
    )


def _select_layered(vocabulary: Vocabulary, privacy: Privacy) -> str:
    """Add the layer to a span."""
    return f"""
SELECT * EXCEPT (request_path, request_method), {layer_sql(vocabulary)} AS layer
FROM (SELECT *, {REQUEST_SQL} FROM ({_select_typed(vocabulary, privacy)}))"""


def _select_typed(vocabulary: Vocabulary, privacy: Privacy) -> str:
    """Write every column of a span but its layer."""
    return f"""
SELECT
  toDateTime(intDiv(start_ns, 10000000000) * 10, 'UTC') AS bucket,
  toFixedString(substring(s_trace_id, 1, 16), 16) AS trace_id,
  toFixedString(substring(s_span_id, 1, 8), 8) AS span_id,
  toFixedString(substring(s_parent_id, 1, 8), 8) AS parent_span_id,
  {privacy.redacted_sql("s_name")} AS name,
  s_kind AS kind,
  fromUnixTimestamp64Nano(toInt64(start_ns), 'UTC') AS start,
  fromUnixTimestamp64Nano(toInt64(greatest(start_ns, end_ns)), 'UTC') AS end,
  s_code AS status_code,
  {privacy.redacted_sql("s_message")} AS status_message,
  r_service AS service,
  r_instance AS instance,
  scope_name AS scope,
  {typed_sql(vocabulary)},
  {leftovers_sql()} AS attributes,
  r_map AS resource,
  arrayMap(e -> fromUnixTimestamp64Nano(toInt64(e.time_unix_nano), 'UTC'), s_events)
    AS `events.time`,
  {_event_names(privacy)} AS `events.name`,
  arrayMap(e -> {_event_attributes(privacy)}, s_events) AS `events.attributes`,
  credential_tenant,
  source,
  fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS received,
  seq,
  bitOr(bitAnd(s_hash, 0xFFFFFFFFFF000000), bitAnd(bitNot(seq), 0xFFFFFF)) AS version
FROM (
  SELECT *, arrayConcat(a_found, h_found) AS all_found,
    arrayConcat(a_columns, h_columns) AS all_columns
  FROM ({_select_flat(vocabulary, privacy)})
)"""


def _event_names(privacy: Privacy) -> str:
    if not privacy.patterns:
        return "s_events.name"
    return f"arrayMap(e -> {privacy.redacted_sql('e.name')}, s_events)"


def _event_attributes(privacy: Privacy) -> str:
    whole = f"mapFromArrays(e.attributes.key, {texts_sql('e.attributes.value', privacy)})"
    if not privacy.names and not privacy.prefixes:
        return whole
    return f"mapFilter((k, t) -> NOT ({privacy.withheld_in_event_sql('e.name', 'k')}), {whole})"


def _select_flat(vocabulary: Vocabulary, privacy: Privacy) -> str:
    """Make one row per span, its attributes sorted by what they mean."""
    return f"""
SELECT * EXCEPT (a_keys, a_texts, a_ranks), {sorted_sql("a")} FROM (
  SELECT *, {ranks_sql("a", vocabulary, privacy)} FROM (
    SELECT * EXCEPT (spans, r_hash), {lists_sql("a", "sp", privacy)},
      sp.trace_id AS s_trace_id, sp.span_id AS s_span_id, sp.parent_span_id AS s_parent_id,
      sp.name AS s_name, sp.kind AS s_kind, sp.start_time_unix_nano AS start_ns,
      sp.end_time_unix_nano AS end_ns, sp.status.code AS s_code,
      sp.status.message AS s_message, sp.events AS s_events,
      cityHash64(sp, r_hash, scope_name) AS s_hash
    FROM (
      SELECT * EXCEPT (scopes), sc.scope.name AS scope_name, sc.spans AS spans
      FROM ({_select_resources(vocabulary, privacy)}) ARRAY JOIN scopes AS sc
    ) ARRAY JOIN spans AS sp
  )
)"""


def _select_resources(vocabulary: Vocabulary, privacy: Privacy) -> str:
    return f"""
    SELECT * EXCEPT (r_keys, r_texts, r_ranks, r_names, r_found, r_columns),
      {inherited_sql()},
      r_texts[indexOf(r_keys, 'service.name')] AS r_service,
      r_texts[indexOf(r_keys, 'service.instance.id')] AS r_instance,
      {kept_sql("r")} AS r_map
    FROM (
      SELECT *, {sorted_sql("r")} FROM (
        SELECT *, {ranks_sql("r", vocabulary, privacy, of_resource=True)} FROM (
          SELECT credential_tenant, received_unix_nano, source, seq, rs.scope_spans AS scopes,
            cityHash64(rs.resource, credential_tenant) AS r_hash,
            {lists_sql("r", "rs.resource", privacy)}
          FROM {LANDING} ARRAY JOIN traces.resource_spans AS rs
        )
      )
    )"""


def _select_unknown(vocabulary: Vocabulary) -> str:
    """Count the attribute names that nobody has told us about."""
    names = [known for known in vocabulary.known if not known.endswith("*")]
    prefixes = [known.removesuffix("*") for known in vocabulary.known if known.endswith("*")]
    is_known = " OR ".join(
        [f"has({names}, name)", *(f"startsWith(name, '{prefix}')" for prefix in prefixes)]
    )
    # Counted first: asking of every span whether we know its names would cost more than all else.
    return f"""
SELECT day, source, tenant, name, spans FROM (
  SELECT toDate(received) AS day, source, credential_tenant AS tenant, name, count() AS spans
  FROM spans ARRAY JOIN mapKeys(attributes) AS name
  GROUP BY day, source, tenant, name
) WHERE NOT ({is_known})"""
