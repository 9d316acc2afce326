"""Bad requests since the last good one, as SQL. Pure.

Order is that of starts. A row of several requests brings `tail`, its own bad requests after its
last good one, so a run is exact whatever the rows are made of.
"""

from __future__ import annotations


def run_sql(at: str, good: str, bad: str, tail: str, condition: str = "1") -> str:
    """Write the run at the end of a group's rows, of those that meet the condition."""
    return (
        f"toUInt64(arraySum(x -> if(x.1 > (maxIf({at}, {good} > 0 AND {condition}) AS last_good), "
        f"x.2, 0), groupArrayIf(({at}, {bad}), {bad} > 0 AND {condition})) "
        f"+ argMaxIf({tail}, {at}, {good} > 0 AND {condition}))"
    )
