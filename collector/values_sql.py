"""From an attribute list to typed columns, in SQL.

The landing table takes every scalar as text (the engine's protobuf reader converts), so a count
that was sent as a string reads like one that was sent as a number. Every alias of every column
has a rank; an owner's attributes are sorted by rank once, and a column takes the first of its
own. What can't be read is absent, and absent is never zero.

The expressions are kept few and small: the engine analyses the view anew for every insert.
"""

from __future__ import annotations

from collector.privacy import Privacy
from collector.vocabulary import Column, Vocabulary
from store.columns import COUNT, FLAG, REAL, VOCABULARY_COLUMNS
from store.literals import quoted

_PER_COLUMN = 32 * 65536  # ranks of one column: 32 aliases, 65,536 positions in the span
_SMALL = ("http_status", "attempt")
_SIGNED = ("eval_score",)
_LARGEST = 10_000_000_000  # milliseconds (115 days) or dollars; sums of these stay exact
_NO_COLUMN = 2047  # the column number of an attribute that feeds none; it sorts last
_WITHHELD = 2046  # that of an attribute that is not kept
NESTED = "[redacted: nested]"


def lists_sql(prefix: str, owner: str, privacy: Privacy) -> str:
    """Name an owner's attributes as two plain arrays, `<prefix>_keys` and `<prefix>_texts`."""
    texts = texts_sql(f"{owner}.attributes.value", privacy)
    return f"{owner}.attributes.key AS {prefix}_keys, {texts} AS {prefix}_texts"


def texts_sql(values: str, privacy: Privacy) -> str:
    """Write any attribute values as texts, redacted; '' is an absent one.

    A list of one short text is that text; other lists and maps keep their bytes (protobuf, base64),
    unless texts are redacted: there is no looking into them.
    """
    texts = _texts(values, keep_nested=not privacy.patterns)
    return f"arrayMap(t -> {privacy.redacted_sql('t')}, {texts})" if privacy.patterns else texts


def _texts(values: str, *, keep_nested: bool) -> str:
    names = ("", "string_", "int_", "double_", "bool_", "array_", "kvlist_", "bytes_")
    members = ", ".join(f"{values}.{name}value" for name in names)
    kept = [
        "concat('otlp:map:', base64Encode(m))",
        "concat('otlp:array:', base64Encode(a))",
        "base64Encode(y)",
    ]
    a_map, an_array, some_bytes = kept if keep_nested else [quoted(NESTED)] * 3
    return f"""arrayMap((is, s, i, d, b, a, m, y) -> multiIf(is = 'string_value', s,
        is = 'int_value', i, is = 'double_value', d, is = 'bool_value', b,
        is = 'bytes_value', {some_bytes},
        is = 'kvlist_value', {a_map},
        is = 'none', '', startsWith(a, '\\n') AND substring(a, 3, 1) = '\\n'
          AND length(a) = 4 + reinterpretAsUInt8(substring(a, 4, 1)), substring(a, 5),
        {an_array}), {members})"""


def ranks_sql(
    prefix: str, vocabulary: Vocabulary, privacy: Privacy, *, of_resource: bool = False
) -> str:
    """Name the ranks of an owner's attributes.

    A rank is (column, alias, position), best first; an attribute that is not kept comes behind all
    columns, one without a column, or without a value, last. A resource has the columns that its
    spans inherit, and no others.
    """
    withheld = f"toUInt32({_WITHHELD * _PER_COLUMN})"
    names = list(privacy.names)
    ranks = [_WITHHELD * _PER_COLUMN] * len(names)
    for number, column, factor in _numbered(vocabulary):
        if of_resource and not column.resource:
            continue
        for place, alias in enumerate(column.aliases):
            if alias.factor == factor and not privacy.withholds(alias.name):
                names.append(alias.name)
                ranks.append(number * _PER_COLUMN + place * 65536)
    last = f"toUInt32({_NO_COLUMN * _PER_COLUMN})"
    other = last
    if privacy.prefixes:
        other = f"if({privacy.has_prefix_sql('k')}, {withheld}, {last})"
    ranked = f"transform(k, [{', '.join(map(quoted, names))}], {ranks}, {other})"
    return f"""arrayMap((k, t, i) -> if(t = '', {last}, {ranked}) + i,
        {prefix}_keys, {prefix}_texts, arrayEnumerate({prefix}_keys)) AS {prefix}_ranks"""


def sorted_sql(prefix: str) -> str:
    """Name the attributes in the order of their ranks, and the columns they stand for."""
    return f"""arraySort((k, r) -> r, {prefix}_keys, {prefix}_ranks) AS {prefix}_names,
      arraySort((t, r) -> r, {prefix}_texts, {prefix}_ranks) AS {prefix}_found,
      arrayMap(r -> intDiv(r, {_PER_COLUMN}), arraySort({prefix}_ranks)) AS {prefix}_columns"""


def inherited_sql() -> str:
    """Name what a span inherits from its resource, columns and texts."""
    return f"""arrayFilter((t, c) -> c < {_WITHHELD}, r_found, r_columns) AS h_found,
      arrayFilter(c -> c < {_WITHHELD}, r_columns) AS h_columns"""


def kept_sql(prefix: str) -> str:
    """Write the map of all of an owner's attributes but those that are not kept."""
    names, found = (
        f"arrayFilter((x, c) -> c != {_WITHHELD}, {prefix}_{what}, {prefix}_columns)"
        for what in ("names", "found")
    )
    return f"mapFromArrays({names}, {found})"


def leftovers_sql() -> str:
    """Write the map of attributes that feed no column, or whose column had a better one."""
    is_left = f"c = {_NO_COLUMN} OR (c = before AND c != {_WITHHELD})"
    before = "arrayShiftRight(a_columns, 1, toUInt32(0))"
    return f"""mapFromArrays(
      arrayFilter((k, c, before) -> {is_left}, a_names, a_columns, {before}),
      arrayFilter((t, c, before) -> {is_left}, a_found, a_columns, {before}))"""


def typed_sql(vocabulary: Vocabulary) -> str:
    """Write every column's value from the span's attributes, then the resource's."""
    texts: dict[str, list[tuple[str, float]]] = {}
    for number, column, factor in _numbered(vocabulary):
        text = f"all_found[indexOf(all_columns, {number})]"
        texts.setdefault(column.name, []).append((text, factor))
    return ",\n    ".join(
        f"{_typed(column, texts[column.name])} AS {column.name}" for column in vocabulary.columns
    )


def _typed(column: Column, texts: list[tuple[str, float]]) -> str:
    kind, text = VOCABULARY_COLUMNS[column.name], texts[0][0]
    if kind == COUNT:
        # a negative one does not read as unsigned, nor an absurd one as so few bits
        return f"toUInt{16 if column.name in _SMALL else 32}OrNull({text})"
    if kind == REAL:
        # NaN, infinity and what is negative or absurd are not measurements
        numbers = [f"toFloat64OrNull({text}) * {factor!r}" for text, factor in texts]
        number = numbers[0] if len(numbers) == 1 else f"coalesce({', '.join(numbers)})"
        name = f"n_{column.name}"
        least = -_LARGEST if column.name in _SIGNED else 0
        return f"if(({number} AS {name}) BETWEEN {least} AND {_LARGEST}, {name}, NULL)"
    if kind == FLAG:
        return f"transform(lower({text}), ['true', '1', 'false', '0'], [1, 1, 0, 0], NULL)"
    if column.name == "tenant":
        return f"if(credential_tenant != '', credential_tenant, {text})"
    if column.from_list:
        raw = f"base64Decode(substring({text}, 12))"
        first = f"substring({raw}, 5, reinterpretAsUInt8(substring({raw}, 4, 1)))"
        return f"if(startsWith({text}, 'otlp:array:'), {first}, {text})"
    return f"lower({text})" if column.name == "operation" else text


def _numbered(vocabulary: Vocabulary) -> list[tuple[int, Column, float]]:
    """Give each column a number, and one for each unit its aliases come in."""
    pairs = [
        (column, factor)
        for column in vocabulary.columns
        for factor in sorted({alias.factor for alias in column.aliases}, reverse=True)
    ]
    return [(number, column, factor) for number, (column, factor) in enumerate(pairs, 1)]
