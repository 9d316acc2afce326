"""Facts files: what is unknown stays unknown, what is wrong is named with its line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from base.errors import BadInput
from slo.backtest.csv_blocks import read_csv_blocks
from slo.backtest.facts_file import Reading, read_facts

COLUMNS = (
    "start", "outcome", "tenant", "ttft_ms", "http_status", "streaming", "reported_cost_usd",
)  # fmt: skip


def read(path: Path) -> tuple[list[dict[str, Any]], Reading]:
    reading = Reading()
    tables = list(read_facts([path], COLUMNS, reading, ["tenant", "http_status"]))
    return (pa.concat_tables(tables).to_pylist() if tables else []), reading


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "facts.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_what_a_row_does_not_say_is_unknown(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "start,tenant,outcome,ttft_ms,cost_usd,streaming\n"
        "1767225600.25,acme,good,12.5,0.01,true\n"
        "1767225601,,,NaN,,\n",
    )

    (first, second), reading = read(path)

    assert first["start"] == datetime(2026, 1, 1, 0, 0, 0, 250_000, UTC)
    assert (first["reported_cost_usd"], first["streaming"]) == (0.01, True)
    assert second["tenant"] == ""
    assert {second[name] for name in COLUMNS[3:]} | {second["outcome"]} == {None}
    assert reading.missing == {"http_status": [str(path)]}
    assert reading.bad == 0


def test_bad_rows_are_named_by_line_and_the_rest_is_used(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "start,tenant,outcome,ttft_ms,http_status,hue\n"
        "1767225600,acme,good,1,200,x\n"
        "yesterday,acme,good,1,200,x\n"
        "1767225602,acme,fine,1,200,x\n"
        "1767225603,acme,good,fast,200,x\n"
        "\n"
        "1767225604,acme,good,1,200.5,x\n"
        "1767225605,acme,good,1\n"
        ",acme,good,1,200,x\n"
        "1767225606000,acme,good,1,200,x\n"
        "1767225607,acme,good,inf,200,x\n"
        "1767225608,acme,good,1,200,x\n",
    )

    rows, reading = read(path)

    assert [row["start"].second for row in rows] == [0, 8]
    assert [(row.line, row.message) for row in reading.bad_rows] == [
        (3, "start 'yesterday' is not a number"),
        (4, "outcome 'fine' is not good, bad or excluded"),
        (5, "ttft_ms 'fast' is not a number"),
        (7, "http_status 200.5 is not a whole number it can be"),
        (8, "4 values where the header names 6"),
        (9, "start is missing"),
        (10, "start 1767225606000 is not unix seconds between 1970 and 2255"),
        (11, "ttft_ms inf is not a finite number"),
    ]
    assert reading.ignored == {"hue": [str(path)]}
    assert (reading.rows, reading.bad) == (2, 8)


def test_lines_keep_their_numbers_from_block_to_block(tmp_path: Path) -> None:
    lines = [f"{1_767_225_600 + n},good" for n in range(500)]
    lines[123], lines[456] = "x,good", '"open,good'
    path = written(tmp_path, "start,outcome\n" + "\n".join(lines))

    blocks = list(read_csv_blocks(path, block_bytes=700))

    found = [line for block in blocks for line in block.lines.to_pylist()]
    assert sorted(found + [line for block in blocks for line in block.bad]) == list(range(2, 502))
    assert [line for block in blocks for line in block.bad] == [458]
    assert len(blocks) > 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("begin,outcome\n1,good\n", "no column 'start'"),
        ("start,start\n1,2\n", "'start' is there twice"),
        ("start,cost_usd,reported_cost_usd\n1,2,3\n", "keep one"),
        (b"\xff\xfe\n", "not UTF-8"),
    ],
)
def test_a_file_without_its_columns_is_refused(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    path = written(tmp_path, content)

    with pytest.raises(BadInput, match=said):
        read(path)


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")

    with pytest.raises(BadInput, match="not a Parquet file"):
        read(tmp_path / "x.parquet")
    with pytest.raises(BadInput, match=r"\.csv and \.parquet"):
        read(tmp_path / "x.json")
    with pytest.raises(BadInput, match="no such file"):
        read(tmp_path / "gone.csv")


def test_parquet_columns_may_be_of_any_type_that_holds_the_value(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)
    table = pa.table(
        {
            "start": pa.array([at, None, at], pa.timestamp("ms", "UTC")),
            "tenant": pa.array(["acme", "beta", None]).dictionary_encode(),
            "ttft_ms": pa.array(["12", "13", ""]),
            "http_status": pa.array([200, 200, None], pa.int64()),
            "streaming": pa.array([True, None, False]),
            "outcome": pa.nulls(3),
        }
    )
    pq.write_table(table, tmp_path / "facts.parquet")

    rows, reading = read(tmp_path / "facts.parquet")

    assert [(row["ttft_ms"], row["http_status"], row["tenant"]) for row in rows] == [
        (12.0, 200, "acme"),
        (None, None, ""),
    ]
    assert rows[0]["start"] == at
    assert [(row.line, row.message) for row in reading.bad_rows] == [(2, "start is missing")]


def test_a_column_of_another_type_makes_each_of_its_rows_bad(tmp_path: Path) -> None:
    table = pa.table({"start": [1.0, 2.0], "ttft_ms": pa.array([[1], None], pa.list_(pa.int64()))})
    pq.write_table(table, tmp_path / "facts.parquet")

    rows, reading = read(tmp_path / "facts.parquet")

    assert len(rows) == 1
    assert reading.bad_rows[0].line == 1
    assert "not a number" in reading.bad_rows[0].message
