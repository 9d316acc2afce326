"""A CSV file in blocks of whole lines, so that a bad line is known by its number.

A block is read at once; where that fails, line by line. A value cannot hold a line break.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from base.errors import BadInput

BLOCK_BYTES = 16 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Raw:
    """Rows as they are written, the line of each, and lines that are no rows with the reason."""

    table: pa.Table
    lines: pa.Array
    first_line: int
    bad: dict[int, str] = field(default_factory=dict)


def read_csv_blocks(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[Raw]:
    """Read a file with a header line; every value is text, '' where there is none."""
    with path.open("rb") as file:
        names = _header(path, file.readline())
        line = 2
        rest = b""
        while True:
            block = file.read(block_bytes)
            whole, mark, rest = (rest + block).rpartition(b"\n") if block else (rest, b"", b"")
            if not mark and block:
                continue  # one line longer than a block: read on
            if whole or mark:
                raw = _rows(whole + mark, names, line)
                yield raw
                line += (whole + mark).count(b"\n")
            elif line == 2:
                yield Raw(_table(names, []), pa.array([], pa.int64()), 2)
            if not block:
                return


def _header(path: Path, line: bytes) -> list[str]:
    try:
        text = line.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text") from error
    names = [name.strip() for name in next(csv.reader([text.rstrip("\r\n")]), [])]
    if not names or names == [""]:
        raise BadInput(f"{path} is empty: its first line must name the columns")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"{path}: the column {twice[0]!r} is there twice")
    return names


def _rows(block: bytes, names: Sequence[str], line: int) -> Raw:
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(block),
            read_options=pyarrow.csv.ReadOptions(column_names=list(names)),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return _line_by_line(block, names, line)
    if table.num_rows != lines:  # blank lines, which are no rows
        return _line_by_line(block, names, line)
    return Raw(table, pa.array(np.arange(line, line + lines)), line)


def _line_by_line(block: bytes, names: Sequence[str], line: int) -> Raw:
    rows: list[list[str]] = []
    numbers: list[int] = []
    bad: dict[int, str] = {}
    for number, raw in enumerate(block.split(b"\n"), start=line):
        if not raw.strip():
            continue
        row, said = _row(raw, len(names))
        if said:
            bad[number] = said
        else:
            rows.append(row)
            numbers.append(number)
    return Raw(_table(names, rows), pa.array(numbers, pa.int64()), line, bad)


def _row(raw: bytes, columns: int) -> tuple[list[str], str]:
    try:
        text = raw.decode()
        row = next(csv.reader([text], strict=True))
    except UnicodeDecodeError:
        return [], "not UTF-8 text"
    except csv.Error as error:
        return [], f"not a CSV row: {error}"
    if len(row) != columns:
        return [], f"{len(row)} values where the header names {columns}"
    return row, ""


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> pa.Table:
    columns = [pa.array([row[at] for row in rows], pa.string()) for at in range(len(names))]
    return pa.table(columns, names=list(names))
