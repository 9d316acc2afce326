"""From the engine's Arrow to the values that readers expect.

The engine's Arrow writer loses two types: a DateTime arrives as uint32 and an Enum as its number.
The result's own description (DESCRIBE) gives them back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MEMBER = re.compile(r"'((?:[^'\\]|\\.)*)' = (-?\d+)")
_UTC_SECONDS = pa.timestamp("s", tz="UTC")


def needs_types(table: pa.Table) -> bool:
    """Say whether a column may be a disguised DateTime or Enum."""
    return any(f.type in (pa.uint32(), pa.int8(), pa.int16()) for f in table.schema)


def restore(table: pa.Table, types: Mapping[str, str]) -> pa.Table:
    """Give DateTime and Enum columns their meaning back; `types` maps names to engine types."""
    for index, name in enumerate(table.column_names):
        kind = _bare(types.get(name, ""))
        if kind.startswith("DateTime(") or kind == "DateTime":
            column = table.column(index).cast(pa.int64()).cast(_UTC_SECONDS)
            table = table.set_column(index, name, column)
        elif kind.startswith("Enum"):
            table = table.set_column(index, name, _names(table.column(index), kind))
    return table


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Turn a table into dictionaries: aware UTC datetimes, dicts for maps, None for NULL."""
    columns = [_python(table.column(i)) for i in range(table.num_columns)]
    return [
        dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)
    ]


def _bare(kind: str) -> str:
    if kind.startswith("SimpleAggregateFunction("):
        kind = kind.partition(", ")[2].removesuffix(")")
    for wrapper in ("LowCardinality(", "Nullable("):
        if kind.startswith(wrapper):
            kind = kind.removeprefix(wrapper).removesuffix(")")
    return kind


def _names(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    members = {int(number): name for name, number in _MEMBER.findall(kind)}
    numbers = pa.array(list(members), pa.int16())
    names = pa.array(list(members.values()), pa.string())
    at = pc.index_in(column.cast(pa.int16()), value_set=numbers)
    return pc.take(names, at)


def _python(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", tz="UTC"), safe=False).cast(pa.int64())
        return [None if v is None else _instant(v) for v in micros.to_pylist()]
    if pa.types.is_map(kind):
        return [None if v is None else dict(v) for v in column.to_pylist()]
    if pa.types.is_list(kind) and pa.types.is_map(kind.value_type):
        return [[dict(m) for m in v] for v in column.to_pylist()]
    if pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type):
        plain = column.cast(pa.list_(pa.int64())).to_pylist()
        scale = {"s": 1_000_000, "ms": 1000, "us": 1}.get(kind.value_type.unit)
        return [[_instant(v * scale if scale else v // 1000) for v in row] for row in plain]
    return list(column.to_pylist())


def _instant(micros: int) -> datetime:
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)
