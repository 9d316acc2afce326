"""The engine's view from OTLP to typed spans, generated from the vocabulary.

    otlp (Null table) -> view -> spans

The SELECT is built in four layers, so that nothing is computed twice: once per resource, once per
span, once per attribute, once per column. An attribute finds its column by its rank: all aliases
of all columns are numbered, a span's attributes are sorted by that number, and a column takes the
first of its own.
"""

from __future__ import annotations

import hashlib

from collector.layers import layer_sql
from collector.vocabulary import Column, Vocabulary
from store.columns import COUNT, FLAG, REAL, VOCABULARY_COLUMNS
from store.dialect import for_cluster
from store.engine import Engine
from store.otlp import LANDING_TABLE

_NO_COLUMN = 65535  # the rank of an attribute that feeds no column; it sorts last
_RANKS_PER_COLUMN = 32
_NUMBER = {name: number for number, name in enumerate(VOCABULARY_COLUMNS, 1)}


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
    """Write the SELECT of the view from `otlp` to `spans`."""
    inherited = [column for column in vocabulary.columns if column.resource]
    from_resource = "\n    ".join(f"{_at('r', c)} AS r_{c.name}," for c in inherited)
    columns = "\n  ".join(f"{_typed(c)} AS {c.name}," for c in vocabulary.columns)
    return f"""
SELECT
  toDateTime(intDiv(sp.start_time_unix_nano, 10000000000) * 10, 'UTC') AS bucket,
  toFixedString(substring(sp.trace_id, 1, 16), 16) AS trace_id,
  toFixedString(substring(sp.span_id, 1, 8), 8) AS span_id,
  toFixedString(substring(sp.parent_span_id, 1, 8), 8) AS parent_span_id,
  sp.name AS name,
  sp.kind AS kind,
  fromUnixTimestamp64Nano(toInt64(sp.start_time_unix_nano), 'UTC') AS start,
  fromUnixTimestamp64Nano(toInt64(greatest(sp.start_time_unix_nano, sp.end_time_unix_nano)), 'UTC')
    AS end,
  sp.status.code AS status_code,
  sp.status.message AS status_message,
  r_service AS service,
  r_instance AS instance,
  scope_name AS scope,
  {columns}
  {layer_sql(vocabulary)} AS layer,
  mapFromArrays(arrayMap(x -> a_keys[bitAnd(x, 65535)], a_rest),
    arrayMap(x -> a_texts[bitAnd(x, 65535)], a_rest)) AS attributes,
  r_map AS resource,
  arrayMap(e -> fromUnixTimestamp64Nano(toInt64(e.time_unix_nano), 'UTC'), sp.events)
    AS `events.time`,
  sp.events.name AS `events.name`,
  arrayMap(e -> mapFromArrays(e.attributes.key,
    arrayMap(v -> {_text("v")}, e.attributes.value)), sp.events) AS `events.attributes`,
  credential_tenant,
  source,
  fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS received,
  seq,
  bitOr(bitAnd(cityHash64(sp, r_hash, scope_name), 0xFFFFFFFFFF000000),
    bitAnd(bitNot(seq), 0xFFFFFF)) AS version
FROM (
  SELECT *,
    {_sorted("a", vocabulary, "sp")},
    arrayFilter((x, c, before) -> c = before OR c = {_NO_COLUMN // _RANKS_PER_COLUMN},
      a_sorted, a_columns, arrayPushFront(arrayPopBack(a_columns), 0)) AS a_rest
  FROM (
    SELECT * EXCEPT (rs), sc.scope.name AS scope_name, sp FROM (
      SELECT credential_tenant, received_unix_nano, source, seq, rs,
    {_sorted("r", vocabulary, "rs.resource")},
    {from_resource}
    r_texts[indexOf(r_keys, 'service.name')] AS r_service,
    r_texts[indexOf(r_keys, 'service.instance.id')] AS r_instance,
    mapFromArrays(r_keys, r_texts) AS r_map,
    cityHash64(r_keys, r_texts, credential_tenant) AS r_hash
      FROM otlp ARRAY JOIN resource_spans AS rs
    ) ARRAY JOIN rs.scope_spans AS sc ARRAY JOIN sc.spans AS sp
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


def _sorted(prefix: str, vocabulary: Vocabulary, owner: str) -> str:
    """Name the keys, texts and ranks of an owner's attributes `<prefix>_…`."""
    names, ranks = _ranks(vocabulary)
    return f"""{owner}.attributes.key AS {prefix}_keys,
    arrayMap(v -> {_text("v")}, {owner}.attributes.value) AS {prefix}_texts,
    arraySort(arrayMap((k, i) -> toUInt32(transform(k, [{_quoted(names)}],
      {ranks}, {_NO_COLUMN})) * 65536 + toUInt32(i),
      {prefix}_keys, arrayEnumerate({prefix}_keys))) AS {prefix}_sorted,
    arrayMap(x -> intDiv(x, {65536 * _RANKS_PER_COLUMN}), {prefix}_sorted) AS {prefix}_columns"""


def _ranks(vocabulary: Vocabulary) -> tuple[list[str], list[int]]:
    names, ranks = [], []
    for column in vocabulary.columns:
        for rank, alias in enumerate(column.aliases):
            names.append(alias.name)
            ranks.append(_NUMBER[column.name] * _RANKS_PER_COLUMN + rank)
    return names, ranks


def _text(value: str) -> str:
    """Write any attribute value as text; '' is an absent one.

    A list of one short text is that text; other lists and maps keep their bytes (`store.values`).
    """
    array = f"{value}.array_value"
    return f"""multiIf({value}.value = 'string_value', {value}.string_value,
      {value}.value = 'int_value', toString({value}.int_value),
      {value}.value = 'double_value', toString({value}.double_value),
      {value}.value = 'bool_value', if({value}.bool_value, 'true', 'false'),
      {value}.value = 'array_value', if(startsWith({array}, '\\n')
        AND substring({array}, 3, 1) = '\\n'
        AND length({array}) = 4 + reinterpretAsUInt8(substring({array}, 4, 1)),
        substring({array}, 5), concat('otlp:array:', base64Encode({array}))),
      {value}.value = 'kvlist_value', concat('otlp:map:', base64Encode({value}.kvlist_value)),
      {value}.value = 'bytes_value', base64Encode({value}.bytes_value), '')"""


def _typed(column: Column) -> str:
    text = _at("a", column)
    if column.resource:
        text = f"if({text} != '', {text}, r_{column.name})"
    kind = VOCABULARY_COLUMNS[column.name]
    if column.name == "tenant":
        return f"if(credential_tenant != '', credential_tenant, {text})"
    if kind == COUNT:
        return (
            f"coalesce(toInt64OrNull({text}), accurateCastOrNull(toFloat64OrNull({text}), 'Int64'))"
        )
    if kind == REAL:
        number = f"toFloat64OrNull({text})"
        return f"if(isFinite({number}), {number} * {_factor(column)}, NULL)"
    if kind == FLAG:
        return (
            f"transform(lower({text}), ['true', '1', 'false', '0'], [1, 1, 0, 0], NULL)"
            "::Nullable(Bool)"
        )
    if column.from_list:
        raw = f"base64Decode(substring({text}, 12))"
        first = f"substring({raw}, 5, reinterpretAsUInt8(substring({raw}, 4, 1)))"
        return f"if(startsWith({text}, 'otlp:array:'), {first}, {text})"
    return f"lower({text})" if column.name == "operation" else text


def _at(prefix: str, column: Column) -> str:
    """Find the text of a column's best attribute; '' where there is none."""
    return f"{prefix}_texts[bitAnd({_entry(prefix, column)}, 65535)]"


def _entry(prefix: str, column: Column) -> str:
    number = _NUMBER[column.name]
    return f"{prefix}_sorted[indexOf({prefix}_columns, {number})]"


def _factor(column: Column) -> str:
    factors = [alias.factor for alias in column.aliases]
    if len(set(factors)) == 1:
        return repr(factors[0])
    rank = f"bitAnd(intDiv({_entry('a', column)}, 65536), {_RANKS_PER_COLUMN - 1})"
    return f"arrayElement({factors}, {rank} + 1)"


def _named(prefix: str, select: str) -> str:
    return f"{prefix}_{hashlib.sha256(select.encode()).hexdigest()[:8]}"


def _quoted(names: list[str]) -> str:
    return ", ".join("'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in names)
