"""Requests in files, CSV or Parquet, one a row: read in batches, checked, nothing dropped unsaid.

`start` is unix seconds (microseconds are kept). Every other column is one of `slo.columns`, or
`cost_usd`, which is what the request was said to cost, or, where it is asked for, `token_times_ms`.
A column that is missing, an empty value and
NaN are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from base.errors import BadInput
from slo.backtest.csv_blocks import Raw, read_csv_blocks
from slo.backtest.values import ARRIVALS, convert
from slo.columns import COLUMNS

ALIASES = {"cost_usd": "reported_cost_usd"}
BATCH_ROWS = 500_000
MOST_NAMED = 1000
"""Bad rows that are named one by one; more are only counted."""

_SUFFIXES = {".csv": "CSV", ".parquet": "Parquet", ".pq": "Parquet"}


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was not used. `line` counts from 1: lines of a CSV, rows of a Parquet file."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file} line {self.line}: {self.message}"


@dataclass(slots=True)
class Reading:
    """What was read so far, and what was not used."""

    rows: int = 0
    bad: int = 0
    bad_rows: list[BadRow] = field(default_factory=list)
    ignored: dict[str, list[str]] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    """By column: the files that have it and it means nothing here; that lack it."""


def read_facts(
    paths: Sequence[Path], columns: Sequence[str], reading: Reading, named: Collection[str] = ()
) -> Iterator[pa.Table]:
    """Read these columns, in batches that have all of them, `start` in nanoseconds.

    Every column that is known is checked, read or not; `reading` says which of the `named` ones a
    file lacks. BadInput refuses a file as a whole; rows
    that cannot be used are named in `reading`.
    """
    also = ARRIVALS if ARRIVALS in columns else ""
    for path in paths:
        for raw in _blocks(path, also):
            if raw.first_line <= _FIRST_LINES:
                _note_columns(path, raw.table.column_names, named, reading, also)
            table, bad = _checked(raw, columns)
            reading.rows += table.num_rows
            reading.bad += len(bad)
            room = MOST_NAMED - len(reading.bad_rows)
            reading.bad_rows += [BadRow(str(path), line, said) for line, said in bad[:room]]
            for start in range(0, table.num_rows, BATCH_ROWS):
                yield table.slice(start, BATCH_ROWS)


_FIRST_LINES = 2  # a CSV's first row is on line 2, a Parquet's is row 1


def _blocks(path: Path, also: str) -> Iterator[Raw]:
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise BadInput(f"{path}: facts are read from .csv and .parquet files")
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    yield from read_csv_blocks(path) if kind == "CSV" else _parquet_blocks(path, also)


def _parquet_blocks(path: Path, also: str) -> Iterator[Raw]:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path} is not a Parquet file: {error}") from error
    with file:
        names = file.schema_arrow.names
        _check_header(path, names)
        if not file.metadata.num_rows:
            yield Raw(file.schema_arrow.empty_table(), pa.array([], pa.int64()), 1)
        wanted = [name for name in names if name in ("start", also) or _known(name)]
        first = 1
        try:
            for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
                table = pa.Table.from_batches([batch])
                if first == 1:  # the others are named, not read
                    for name in set(names) - set(wanted):
                        table = table.append_column(name, pa.nulls(table.num_rows))
                lines = pa.array(np.arange(first, first + table.num_rows))
                yield Raw(table, lines, first)
                first += table.num_rows
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{path} cannot be read after row {first - 1}: {error}") from error


def _check_header(path: Path, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"{path}: the column {twice[0]!r} is there twice")
    if "start" not in names:
        raise BadInput(
            f"{path} has no column 'start' (unix seconds): its columns are {', '.join(names)}"
        )
    if "cost_usd" in names and ALIASES["cost_usd"] in names:
        raise BadInput(f"{path} has both cost_usd and {ALIASES['cost_usd']}: keep one")


def _known(name: str) -> bool:
    return ALIASES.get(name, name) in COLUMNS


def _note_columns(
    path: Path, names: Sequence[str], wanted: Collection[str], reading: Reading, also: str
) -> None:
    _check_header(path, names)
    there = {ALIASES.get(name, name) for name in names}
    for name in sorted(set(names)):
        if name not in ("start", also) and not _known(name):
            reading.ignored.setdefault(name, []).append(str(path))
    for name in sorted(wanted):
        if name not in there:
            reading.missing.setdefault(name, []).append(str(path))


def _checked(raw: Raw, wanted: Sequence[str]) -> tuple[pa.Table, list[tuple[int, str]]]:
    """Convert every known column, take bad rows out, and add what is missing as unknown."""
    converted: dict[str, pa.Array] = {}
    found: dict[int, str] = dict(raw.bad)  # the first thing wrong with a line
    for name in raw.table.column_names:
        if name != "start" and name not in wanted and not _known(name):
            continue
        values, wrong = convert(name, ALIASES.get(name, name), raw.table.column(name))
        converted[ALIASES.get(name, name)] = values
        for bad in wrong:
            found.setdefault(raw.lines[bad.row].as_py(), bad.message)
    rows = raw.table.num_rows
    columns = [converted[name] if name in converted else unknown(name, rows) for name in wanted]
    table = pa.table(columns, names=list(wanted))
    if found:
        keep = pc.invert(pc.is_in(raw.lines, value_set=pa.array(list(found), pa.int64())))
        table = table.filter(keep)
    return table, sorted(found.items())


def unknown(name: str, rows: int) -> pa.Array:
    """Make a column of which nothing is known: '' for text, as the store has it, else NULL."""
    empty, _ = convert(name, name, pa.chunked_array([pa.nulls(rows)]))
    return empty
