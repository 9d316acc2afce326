"""Rows of table `facts`: reading what is there, finding what changes, writing it in one insert."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from store.engine import Engine
from store.parts import Extents

_NS = pa.timestamp("ns", tz="UTC")
_TEXT, _REAL, _COUNT = pa.string(), pa.float64(), pa.int64()

SCHEMA = pa.schema(
    [
        ("start", _NS),
        ("end", _NS),
        ("trace_id", pa.binary(16)),
        *((name, _TEXT) for name in (
            "request_id", "tenant", "route", "model", "replica", "user_id", "feature",
            "app_version", "priority", "gateway", "outcome", "outcome_reason",
        )),
        ("http_status", pa.int32()),
        *((name, _REAL) for name in (
            "duration_ms", "ttft_ms", "tpot_ms", "queue_ms", "prefill_ms", "decode_ms", "engine_s",
        )),
        *((name, _COUNT) for name in (
            "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens",
        )),
        ("usage_source", _TEXT),
        ("reported_cost_usd", _REAL),
        ("attempts", pa.uint16()),
        ("streaming", pa.bool_()),
        ("finish_reason", _TEXT),
        ("sources", pa.list_(_TEXT)),
        ("conflicts", pa.list_(_TEXT)),
        ("conversation_id", _TEXT),
        ("task_id", _TEXT),
        ("itl_p95_ms", _REAL),
        ("eval_name", _TEXT),
        ("eval_score", _REAL),
        ("eval_label", _TEXT),
        ("tool_calls", _COUNT),
        ("tool_errors", _COUNT),
        ("version", pa.uint64()),
        ("deleted", pa.uint8()),
    ]
)  # fmt: skip

_CONTENT = [name for name in SCHEMA.names if name not in {"version", "deleted"}]
_KEY = ["minute", "tenant", "route", "trace_id", "request_id"]
_MINUTE = 60_000_000_000


def read_facts(engine: Engine, seq: int, within: Extents) -> pd.DataFrame:
    """Read the facts of the traces of a batch, each within its extent."""
    first, last = int(within.first.min()), int(within.last.max())
    columns = ", ".join(
        f"toUnixTimestamp64Nano({name}) AS {name}_ns" if name in {"start", "end"}
        else f"toString({name}) AS {name}" if SCHEMA.field(name).type == _TEXT
        else name
        for name in _CONTENT
    )  # fmt: skip
    table = engine.arrow(
        f"SELECT {columns} FROM facts FINAL "
        "WHERE facts.trace_id IN (SELECT trace_id FROM spans WHERE seq = {seq:UInt64}) "
        f"AND facts.start >= fromUnixTimestamp64Nano(toInt64({first}), 'UTC') "
        f"AND facts.start <= fromUnixTimestamp64Nano(toInt64({last}), 'UTC')",
        {"seq": seq},
    )
    if not table.num_rows:
        return pd.DataFrame()
    found: pd.DataFrame = table.to_pandas()
    places = pd.Index(within.traces).get_indexer(pd.Index(found["trace_id"]))
    start = found["start_ns"].to_numpy()
    return found[(places >= 0) & (start >= within.first[places]) & (start <= within.last[places])]


def changed(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Return the rows to write: new or different ones, and `deleted` ones that are gone."""
    if old.empty and new.empty:
        return pd.DataFrame()
    if old.empty:
        return new.assign(deleted=0)
    before = dict(zip(_keys(old), _contents(old), strict=True))
    rows, kept = [], set()
    if not new.empty:
        was_there = new["trace_id"].isin(set(old["trace_id"])).to_numpy()
        known = new[was_there]  # few: most traces of a batch were not there before
        after = _keys(known)
        kept = {*after}
        differs = [
            before.get(key) != content for key, content in zip(after, _contents(known), strict=True)
        ]
        rows = [new[~was_there].assign(deleted=0), known[np.array(differs, bool)].assign(deleted=0)]
    gone = np.array([key not in kept for key in before], bool)
    return pd.concat([*rows, old[gone].assign(deleted=1)], ignore_index=True)


def write_facts(engine: Engine, rows: pd.DataFrame, seq: int) -> None:
    """Insert them all at once: a reader sees the old facts of a day or the new ones."""
    if rows.empty:
        return
    columns = []
    for field in SCHEMA:
        if field.name == "version":
            values = (2 * seq + 1 - rows["deleted"]).to_numpy("uint64")
        elif field.name in {"start", "end"}:
            values = rows[f"{field.name}_ns"].to_numpy("int64")
        else:
            values = rows[field.name]
        columns.append(_column(values, field.type))
    engine.insert_arrow("facts", pa.Table.from_arrays(columns, schema=SCHEMA))


def _column(values: object, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind) and isinstance(values, pd.Series):
        numbers = values.to_numpy("float64", na_value=np.nan)
        # What does not fit is not known: stopping the batch for it would stop every later one.
        limits = np.iinfo(kind.to_pandas_dtype())
        if limits.min == 0:
            numbers = np.clip(numbers, 0, limits.max)  # attempts, which are never unknown
        unknown = ~((numbers >= limits.min) & (numbers < limits.max + 1.0))
        return pa.array(np.where(unknown, 0, numbers).astype("int64"), mask=unknown).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_boolean(kind) and isinstance(values, pd.Series):
        numbers = values.to_numpy("float64", na_value=np.nan)
        unknown = np.isnan(numbers)
        return pa.array(np.where(unknown, 0, numbers).astype(bool), mask=unknown)
    if pa.types.is_floating(kind) and isinstance(values, pd.Series):
        numbers = values.to_numpy("float64", na_value=np.nan)
        return pa.array(numbers, kind, mask=np.isnan(numbers))
    if pa.types.is_list(kind):
        return pa.array([list(each) for each in values], kind)  # type: ignore[attr-defined]
    return pa.array(list(values), kind) if kind == pa.binary(16) else pa.array(values, kind)  # type: ignore[call-overload]


def _keys(rows: pd.DataFrame) -> list[tuple[object, ...]]:
    minute = rows["start_ns"] // _MINUTE
    keyed = rows.assign(minute=minute)[_KEY]
    return list(keyed.itertuples(index=False, name=None))


def _contents(rows: pd.DataFrame) -> list[tuple[object, ...]]:
    """Every value as comparable Python: NaN is None, lists are tuples."""
    columns = []
    for name in _CONTENT:
        values = rows[f"{name}_ns" if name in {"start", "end"} else name]
        if pa.types.is_list(SCHEMA.field(name).type):
            columns.append([tuple(each) for each in values])
        else:
            plain = values.astype(object)
            columns.append(list(plain.where(plain.notna(), None)))
    return list(zip(*columns, strict=True))
