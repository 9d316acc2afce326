"""Values of a facts file, column by column -> what the engine takes; what cannot be is named. Pure.

Whole columns are converted at once; only where that fails are values looked at one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slo.columns import COLUMNS, OUTCOMES, Kind

ARRIVALS = "token_times_ms"
"""When each token came, in milliseconds since the request's start: a list, in files only."""

_INTEGERS = {
    "http_status": pa.int32(), "attempts": pa.uint16(), "prompt_tokens": pa.int64(),
    "cached_tokens": pa.int64(), "completion_tokens": pa.int64(), "reasoning_tokens": pa.int64(),
    "tool_calls": pa.int64(), "tool_errors": pa.int64(),
}  # fmt: skip
_UNKNOWN = {"", "null", "NULL", "nan", "NaN", "None"}
_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_LATEST_S = 9_000_000_000  # the year 2255: nanoseconds fit in 64 bits
_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Bad:
    """A value that cannot be read, by the row's place in the batch."""

    row: int
    message: str


Converted = tuple[pa.Array, list[Bad]]


def convert(written: str, name: str, column: pa.ChunkedArray) -> Converted:
    """Convert a column; `written` is its name in the file. A bad value comes out unknown."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if name == "start":
        return _start(values)
    if name == ARRIVALS:
        return _times(written, values)
    column_kind = COLUMNS[name].kind
    if column_kind is Kind.TEXT:
        return _outcome(values) if name == "outcome" else _text(written, values)
    if column_kind is Kind.FLAG:
        return _flag(written, values)
    return _number(written, name, values)


def _start(values: pa.Array) -> Converted:
    if pa.types.is_timestamp(values.type):
        at = values.cast(pa.timestamp("ns"), safe=False).cast(pa.int64())
        missing = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
        bad = [Bad(int(row), "start is missing") for row in missing]
        return pc.fill_null(at, 0).cast(pa.timestamp("ns", "UTC")), bad
    seconds, bad = _doubles("start", values)
    known = seconds.to_numpy(zero_copy_only=False)
    named = {each.row for each in bad}
    with np.errstate(invalid="ignore"):
        outside = np.flatnonzero(~((known >= 0) & (known < _LATEST_S)))
    for row in outside.tolist():
        if row not in named:
            value = known[row]
            said = (
                "start is missing"
                if math.isnan(value)
                else f"start {value:.15g} is not unix seconds between 1970 and 2255"
            )
            bad.append(Bad(row, said))
    usable = np.where(np.isin(np.arange(known.size), outside), 0.0, known)
    micros = np.rint(usable * 1e6).astype(np.int64)  # a double holds no more than microseconds
    return pa.array(micros * 1000).cast(pa.timestamp("ns", "UTC")), bad


def _number(written: str, name: str, values: pa.Array) -> Converted:
    numbers, bad = _doubles(written, values)
    kind = _INTEGERS.get(name)
    if kind is None:
        return numbers, bad
    limits = np.iinfo(kind.to_pandas_dtype())
    low, high = max(limits.min, -_EXACT), min(limits.max, _EXACT)
    known = numbers.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        wrong = ~np.isnan(known) & ~((known == np.rint(known)) & (known >= low) & (known <= high))
    for row in np.flatnonzero(wrong).tolist():
        bad.append(Bad(row, f"{written} {known[row]:.15g} is not a whole number it can be"))
    unknown = wrong | np.isnan(known)
    whole = np.where(unknown, 0, known).astype(np.int64)
    return pa.array(whole, mask=unknown).cast(kind), bad


def _doubles(written: str, values: pa.Array) -> Converted:
    """Convert to doubles; NaN is unknown, infinite is bad."""
    if pa.types.is_null(values.type):
        return values.cast(pa.float64()), []
    bad: list[Bad] = []
    if _is_text(values.type):
        try:
            numbers = pc.if_else(pc.equal(values, ""), None, values).cast(pa.float64())
        except pa.ArrowInvalid:
            numbers, bad = _one_by_one(written, values, _to_number, pa.float64(), "a number")
    elif pa.types.is_boolean(values.type) or pa.types.is_nested(values.type):
        return _all_bad(written, values, pa.float64(), "a number")
    else:
        try:
            numbers = values.cast(pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _all_bad(written, values, pa.float64(), "a number")
    known = numbers.to_numpy(zero_copy_only=False)
    infinite = np.isinf(known)
    for row in np.flatnonzero(infinite).tolist():
        bad.append(Bad(row, f"{written} {known[row]} is not a finite number"))
    return pa.array(known, pa.float64(), mask=infinite | np.isnan(known)), bad


def _text(written: str, values: pa.Array) -> Converted:
    if pa.types.is_nested(values.type):
        return _all_bad(written, values, pa.string(), "text", instead="")
    return pc.fill_null(values.cast(pa.string()), ""), []


def _outcome(values: pa.Array) -> Converted:
    texts, bad = _text("outcome", values)
    unknown = pc.equal(texts, "")
    known = pc.is_in(texts, value_set=pa.array(sorted(OUTCOMES)))
    wrong = pc.invert(pc.or_(unknown, known))
    for row in np.flatnonzero(wrong.to_numpy(zero_copy_only=False)).tolist():
        said = f"outcome {texts[row].as_py()!r} is not good, bad or excluded"
        bad.append(Bad(row, said))
    return pc.if_else(known, texts, pa.scalar(None, pa.string())), bad


def _times(written: str, values: pa.Array) -> Converted:
    """Read a list of times, also one written as text; an empty one is unknown."""
    found: list[list[float]] = []
    bad: list[Bad] = []
    for row, value in enumerate(values.to_pylist()):
        try:
            times = _to_times(value)
        except (ValueError, TypeError):
            times, said = [], f"{written} {value!r:.60} is not a list of milliseconds"
            bad.append(Bad(row, said))
        if any(later < earlier for earlier, later in pairwise([0.0, *times])):
            times = []
            bad.append(Bad(row, f"{written} goes back in time: write times since the start"))
        found.append(times)
    return pa.array(found, pa.list_(pa.float64())), bad


def _to_times(value: Any) -> list[float]:
    if value is None:
        return []
    parts = value.strip("[] ").replace(",", " ").replace(";", " ").split() if isinstance(
        value, str
    ) else value  # fmt: skip
    times = [_to_number(part) if isinstance(part, str) else float(part) for part in parts]
    if not all(map(math.isfinite, times)):
        raise ValueError(value)
    return times


def _flag(written: str, values: pa.Array) -> Converted:
    if pa.types.is_boolean(values.type) or pa.types.is_null(values.type):
        return values.cast(pa.bool_()), []
    texts = values.cast(pa.string())
    return _one_by_one(written, texts, _to_truth, pa.bool_(), "true or false")


def _one_by_one(
    written: str, values: pa.Array, read: Callable[[str], Any], kind: pa.DataType, what: str
) -> Converted:
    found: list[Any] = []
    bad: list[Bad] = []
    for row, text in enumerate(values.to_pylist()):
        try:
            found.append(None if text is None or text.strip() in _UNKNOWN else read(text.strip()))
        except (ValueError, KeyError):
            found.append(None)
            bad.append(Bad(row, f"{written} {text!r} is not {what}"))
    return pa.array(found, kind), bad


def _all_bad(
    written: str, values: pa.Array, kind: pa.DataType, what: str, instead: str | None = None
) -> Converted:
    there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)).tolist()
    said = f"{written} is {values.type}, not {what}"
    return pa.array([instead] * len(values), kind), [Bad(row, said) for row in there]


def _to_number(text: str) -> float:
    if "_" in text:
        raise ValueError(text)
    return float(text)


def _to_truth(text: str) -> bool:
    return _TRUTHS[text.lower()]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
