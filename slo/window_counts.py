"""Counts of every window, SLO and group, in one query for all SLOs of one budget window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slo.budget import Count
from slo.completeness import read_complete
from slo.judged_rows import judged_rows
from slo.model import Slo
from slo.windows import Cut, cut
from store.engine import Engine


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """One group: a count per window; excluded and reasons are of the longest window."""

    group: tuple[str, ...]
    windows: Mapping[timedelta, Count]
    excluded: int
    bad_reasons: Mapping[str, int]


def count_windows(
    engine: Engine, slos: Sequence[Slo], lengths: Sequence[timedelta], now: datetime
) -> dict[str, list[GroupCounts]]:
    """Count (now - length, now] for every length, exactly.

    Returns, by SLO name, every group seen in the longest window.
    """
    if not slos:
        return {}
    ordered = sorted(set(lengths))
    pieces = cut(now, ordered, read_complete(engine))
    table = engine.arrow(_query(slos, ordered, pieces))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    found: dict[str, list[GroupCounts]] = defaultdict(list)
    for row in range(table.num_rows):
        windows = {
            length: Count(columns[f"g{number}"][row], columns[f"b{number}"][row])
            for number, length in enumerate(ordered)
        }
        found[columns["slo"][row]].append(
            GroupCounts(
                group=tuple(columns["group"][row]),
                windows=windows,
                excluded=columns["x"][row],
                bad_reasons=dict(columns["r"][row]),
            )
        )
    return found


def _query(slos: Sequence[Slo], lengths: Sequence[timedelta], pieces: Cut) -> str:
    sums = ", ".join(
        f"sumIf(good, at >= {pieces.starts[length]}) AS g{number}, "
        f"sumIf(bad, at >= {pieces.starts[length]}) AS b{number}"
        for number, length in enumerate(lengths)
    )
    return f"""
SELECT slo, group, {sums}, sum(excluded) AS x, sumMap(reasons) AS r
FROM ({judged_rows(slos, pieces.spans)}) GROUP BY slo, group ORDER BY slo, group"""
