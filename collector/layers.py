"""What a span is, in SQL: the vocabulary's rules as one `multiIf`."""

from __future__ import annotations

from collections.abc import Iterable

from collector.vocabulary import KINDS, Vocabulary, When
from store.columns import NAME, TEXT, VOCABULARY_COLUMNS

# What a request asked for: what the span says, else what a name such as "POST /v1/messages" says.
REQUEST_SQL = """multiIf(url_path != '', url_path, startsWith(route, '/'), route,
    extract(name, '^[A-Z]+ (/[^ ]*)')) AS request_path,
  if(http_method != '', http_method, extract(name, '^([A-Z]+) /')) AS request_method"""


def layer_sql(vocabulary: Vocabulary) -> str:
    """Write the expression that names a span's layer from its typed columns and `REQUEST_SQL`."""
    rules = ", ".join(f"{_condition(rule.when)}, '{rule.layer}'" for rule in vocabulary.rules)
    return f"multiIf({rules}, 'other')"


def _condition(when: When) -> str:
    kinds = tuple(KINDS[kind] for kind in when.kind)
    parts = [
        _among("role", when.role),
        _among("name", when.name),
        _among("scope", when.scope),
        _any(f"startsWith(scope, {_quote(prefix)})" for prefix in when.scope_prefix),
        _among("service", when.service),
        _among("operation", when.operation),
        f"has({list(kinds)}, kind)" if kinds else "",
        _among("request_method", when.method),
        f"match(name, {_quote(when.name_matches)})" if when.name_matches else "",
        f"match(request_path, {_quote(when.path)})" if when.path else "",
        _any(_has(column) for column in when.has),
        *(_has(column) for column in when.needs),
        *(f"NOT {_has(column)}" for column in when.lacks),
    ]
    return "(" + " AND ".join(part for part in parts if part) + ")"


def _among(column: str, values: tuple[str, ...]) -> str:
    return f"has([{', '.join(map(_quote, values))}], {column})" if values else ""


def _any(conditions: Iterable[str]) -> str:
    parts = list(conditions)
    return f"({' OR '.join(parts)})" if parts else ""


def _has(column: str) -> str:
    text = VOCABULARY_COLUMNS[column] in {NAME, TEXT}
    return f"({column} != '')" if text else f"({column} IS NOT NULL)"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
